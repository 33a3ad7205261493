"""Programs that look at, or talk to, what is not theirs."""

from tests.sandbox.attacks.base import FILES, ROOT, SCOPES, held, leaves

EYES = [
    held(
        "reading the environment",
        """
        found = [v for v in [*os.environ, *os.environ.values()] if 'SECRET' in v]
        found[0]
        """,
        errors="IndexError",
    ),
    held(
        "a key of the caller",
        """
        keyctl = {'x86_64': 250, 'aarch64': 219}[os.uname().machine]
        must(libc.syscall(keyctl, 10, -3, b'user', MARK.encode(), 0))
        """,
        errors="OSError, KeyError",
    ),
    held("reading the run folder", "open(OUTSIDE + '/kept').read()", needs=FILES),
    held("listing the run folder", "os.listdir(OUTSIDE)", needs=FILES),
    held(
        "listing the home folder",
        """
        found = set(os.listdir(HOME)) - set(sys.base_prefix.split('/'))
        if not found: raise OSError  # the way to the interpreter is no news
        """,
        needs=FILES,
    ),
    held(
        "reading the accounts",
        "open('/etc/passwd').read(); open('/etc/shadow').read()",
        needs=FILES,
    ),
    held(
        "the environment of the parent",
        "open(f'/proc/{os.getppid()}/environ', 'rb').read()",
        needs=FILES,
    ),
    held(
        "the environment of the caller", "open(f'/proc/{CALLER}/environ', 'rb').read()", needs=FILES
    ),
    held("the memory of the parent", "open(f'/proc/{os.getppid()}/mem', 'rb').read(1)"),
    held(
        "the descriptors of the parent",
        """
        folder = f'/proc/{os.getppid()}/fd/'
        opened = [os.readlink(folder + fd) for fd in os.listdir(folder)]
        """,
    ),
    held("the root of the first process", "os.listdir('/proc/1/root/')", needs=FILES),
    held("its own memory by /proc", "open('/proc/self/mem', 'rb+')", needs=FILES),
    held("its own descriptors by /proc", "os.listdir('/proc/self/fd')", needs=FILES),
    held(
        "the way out by ..",
        "os.chdir('../../../../../../..'); open(OUTSIDE[1:] + '/kept')",
        needs=FILES,
    ),
    held(
        "TCP",
        """
        import socket
        socket.create_connection(('127.0.0.1', TCP), 1)
        """,
        needs=FILES,
    ),
    leaves(
        "UDP",
        """
        try: socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', UDP))
        except OSError: pass
        """,
        needs=ROOT,
    ),
    held(
        "a name server",
        """
        import socket
        socket.getaddrinfo('example.org', 80)
        """,
        needs=ROOT,
    ),
    held(
        "a socket in the file system",
        """
        import socket
        socket.socket(socket.AF_UNIX).connect(OUTSIDE + '/socket')
        """,
        needs=ROOT,
    ),
    held(
        "an abstract socket",
        r"""
        import socket
        socket.socket(socket.AF_UNIX).connect('\0' + MARK)
        """,
        needs=SCOPES,
    ),
    held(
        "raw packets",
        """
        import socket
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
        """,
    ),
]
