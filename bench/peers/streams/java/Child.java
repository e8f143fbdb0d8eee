import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;

/** The life of a measured process: it is started, reports, and ends in order when its input does. */
final class Child {
    private Child() { }

    static Properties properties(String file) throws IOException {
        Properties properties = new Properties();
        try (InputStream in = new FileInputStream(file)) {
            properties.load(in);
        }
        return properties;
    }

    /** Starts the application and returns once it runs; one that fails, then or later, ends the process. */
    static void start(KafkaStreams streams) throws InterruptedException {
        CountDownLatch running = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                running.countDown();
            } else if (now == KafkaStreams.State.ERROR) {
                System.err.println("Streams has failed");
                Runtime.getRuntime().halt(1);
            }
        });
        streams.start();
        running.await();
    }

    /** Leaves the group, so that the next application with its name need not wait for the session to end. */
    static void close(KafkaStreams streams) {
        streams.close(CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP)
            .withTimeout(Duration.ofSeconds(30)));
    }
}
