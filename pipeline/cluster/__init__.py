"""Ray: started when a stage needs it and always shut down, and what fits where on its nodes.

In: an address or none, a model's needs. Out: a session, and the layout of a model's replicas.
"""

from pipeline.cluster.placement import (
    Layout as Layout,
    Node as Node,
    Resources as Resources,
    layout as layout,
)
from pipeline.cluster.ray_session import (
    OBJECT_STORE_BYTES as OBJECT_STORE_BYTES,
    actor as actor,
    nodes as nodes,
    own_node as own_node,
    session as session,
    worker_deaths as worker_deaths,
)
from pipeline.cluster.spread import on_a_worker as on_a_worker, spread as spread
