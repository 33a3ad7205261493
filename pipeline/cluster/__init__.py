"""Ray: started when a stage needs it and always shut down, and what fits where on its nodes.

In: an address or none, a model's needs. Out: a session, and the layout of a model's replicas.
"""

from pipeline.cluster.placement import (
    Layout as Layout,
    Node as Node,
    Resources as Resources,
    Room as Room,
    layout as layout,
)
from pipeline.cluster.session import (
    OBJECT_STORE_BYTES as OBJECT_STORE_BYTES,
    nodes as nodes,
    session as session,
    task as task,
    worker_deaths as worker_deaths,
)
