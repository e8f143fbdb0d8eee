import java.time.Duration;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.streams.tests.SmokeTestDriver;

/**
 * What the command "run" of Kafka's StreamsSmokeTest does, with other numbers than those that it has inside: it generates, and then verifies
 * for exactly once.
 *
 *   ShortRun BROKERS KEYS VALUES SECONDS
 */
public final class ShortRun {
    private ShortRun() { }

    public static void main(final String[] args) {
        final String brokers = args[0];
        final int keys = Integer.parseInt(args[1]);
        final int values = Integer.parseInt(args[2]);
        final Duration time = Duration.ofSeconds(Long.parseLong(args[3]));
        final Map<String, Set<Integer>> inputs = SmokeTestDriver.generate(brokers, keys, values, time);
        SmokeTestDriver.verify(brokers, inputs, values, true);
    }
}
