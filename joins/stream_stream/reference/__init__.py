"""The join in plain Python, one record at a time: the law that the operators are held to, a file per profile."""

from rivermeet.joins.reference.records import Asks, Join
from rivermeet.joins.stream_stream.reference.profile_0_10_0 import StreamStreamEarlyJoin
from rivermeet.joins.stream_stream.reference.profile_0_10_2 import StreamStreamEagerJoin
from rivermeet.joins.stream_stream.reference.profile_3_1 import StreamStreamJoin, StreamStreamSelfJoin
from rivermeet.joins.stream_stream.reference.profile_kafka_4 import (
    StreamStreamKafka4Join,
    StreamStreamKafka4SelfJoin,
    TwiceSelfJoin,
)
from rivermeet.pipelines import joins as declared


def asks(join: declared.StreamStreamJoin) -> Asks:
    """Nothing: records meet by key and time."""
    return {}


def reference_of(join: declared.StreamStreamJoin) -> Join:
    """The reference of the declared profile; of a self-join, one that takes each record once, as a left one."""
    before, after, grace = join.window.before, join.window.after, join.window.grace
    if join.semantics == "3.1":
        return (StreamStreamSelfJoin if join.is_self_join else StreamStreamJoin)(join.how, before, after, grace)
    if join.optimized:
        return StreamStreamKafka4SelfJoin(before, after, grace)
    if join.semantics == "0.10.0":
        made: Join = StreamStreamEarlyJoin(join.how, before, after)
    elif join.semantics == "0.10.2" or join.eager:
        made = StreamStreamEagerJoin(join.how, before, after, grace, kafka4=join.eager)
    else:
        made = StreamStreamKafka4Join(join.how, before, after, grace)
    return TwiceSelfJoin(made) if join.is_self_join else made
