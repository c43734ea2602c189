import java.nio.ByteBuffer;
import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * The workloads' joins, and what an output record adds to the checksum.
 *
 * <p>A value is a number (8 bytes), then a text (32), then a foreign key (8), cut after the last that its side has. A
 * joined value is both numbers, then both texts; without a right side it is the left number alone.
 */
enum Workload {
    /** Orders with the tier of their customer. */
    FK(48, 40) {
        @Override
        void join(StreamsBuilder streams) {
            KTable<Long, byte[]> orders = table(streams, LEFT);
            KTable<Long, byte[]> customers = table(streams, RIGHT);
            orders.join(customers, Workload::foreignKey, Workload::both, stored(OUTPUT)).toStream().to(OUTPUT, WRITTEN);
        }

        @Override
        long weight(long amount, long tier) {
            return amount * (tier + 1);
        }
    },

    /** Clicks within ten seconds of an impression. */
    SS(8, 8) {
        @Override
        void join(StreamsBuilder streams) {
            KStream<Long, byte[]> impressions = streams.stream(LEFT, READ);
            KStream<Long, byte[]> clicks = streams.stream(RIGHT, READ);
            JoinWindows window = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(10), Duration.ofSeconds(5));
            impressions.join(clicks, Workload::both, window, StreamJoined.with(KEY, VALUE, VALUE)).to(OUTPUT, WRITTEN);
        }

        @Override
        long weight(long impression, long click) {
            return impression * 31 + click;
        }
    },

    /** Facts with the row of a table that had arrived. */
    ST(8, 40) {
        @Override
        void join(StreamsBuilder streams) {
            KTable<Long, byte[]> rows = table(streams, RIGHT);
            KStream<Long, byte[]> facts = streams.stream(LEFT, READ);
            facts.leftJoin(rows, Workload::both, Joined.with(KEY, VALUE, VALUE)).to(OUTPUT, WRITTEN);
        }

        @Override
        long weight(long fact, long row) {
            return fact * (row + 1);
        }
    };

    static final String LEFT = "left";
    static final String RIGHT = "right";
    static final String OUTPUT = "joined";
    static final int NUMBER = Long.BYTES;
    static final int NUMBER_AND_TEXT = NUMBER + 32;

    private static final Serde<Long> KEY = Serdes.Long();
    private static final Serde<byte[]> VALUE = Serdes.ByteArray();
    private static final Consumed<Long, byte[]> READ = Consumed.with(KEY, VALUE);
    private static final Produced<Long, byte[]> WRITTEN = Produced.with(KEY, VALUE);

    /** Bytes of a value, of side 0 and side 1. */
    final int[] widths;

    Workload(int left, int right) {
        widths = new int[] {left, right};
    }

    /** Declare the join. */
    abstract void join(StreamsBuilder streams);

    /** What a pair adds to the checksum. */
    abstract long weight(long left, long right);

    /** Whether an output record has both sides. */
    static boolean isPair(byte[] joined) {
        return joined.length > NUMBER;
    }

    /** What an output record with both sides adds to the checksum. */
    long weight(byte[] joined) {
        ByteBuffer numbers = ByteBuffer.wrap(joined);
        return weight(numbers.getLong(), numbers.getLong());
    }

    private static long foreignKey(byte[] order) {
        return ByteBuffer.wrap(order).getLong(NUMBER_AND_TEXT);
    }

    private static byte[] both(byte[] left, byte[] right) {
        if (right == null) {
            return left;
        }
        int leftText = Math.min(left.length, NUMBER_AND_TEXT) - NUMBER;
        int rightText = Math.min(right.length, NUMBER_AND_TEXT) - NUMBER;
        return ByteBuffer.allocate(2 * NUMBER + leftText + rightText)
            .put(left, 0, NUMBER)
            .put(right, 0, NUMBER)
            .put(left, NUMBER, leftText)
            .put(right, NUMBER, rightText)
            .array();
    }

    private static KTable<Long, byte[]> table(StreamsBuilder streams, String topic) {
        return streams.table(topic, READ, stored(topic));
    }

    private static Materialized<Long, byte[], KeyValueStore<Bytes, byte[]>> stored(String name) {
        // A cache would leave out updates, and all the others answer for each.
        return Materialized.<Long, byte[]>as(Stores.persistentKeyValueStore(name))
            .withKeySerde(KEY)
            .withValueSerde(VALUE)
            .withCachingDisabled();
    }
}
