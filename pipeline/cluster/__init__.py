"""Ray: started when a stage needs it and always shut down, and what fits where on its nodes.

In: an address or none, a model's needs. Out: a session, and the layout of a model's replicas.
"""

from pipeline.cluster.placement import Layout as Layout
from pipeline.cluster.placement import Node as Node
from pipeline.cluster.placement import Resources as Resources
from pipeline.cluster.placement import Room as Room
from pipeline.cluster.placement import layout as layout
from pipeline.cluster.placement import set_aside as set_aside
from pipeline.cluster.session import OBJECT_STORE_BYTES as OBJECT_STORE_BYTES
from pipeline.cluster.session import nodes as nodes
from pipeline.cluster.session import session as session
from pipeline.cluster.session import task as task
from pipeline.cluster.session import worker_deaths as worker_deaths
