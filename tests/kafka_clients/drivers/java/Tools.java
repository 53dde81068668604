// Runs command tools of Apache Kafka one after the other in one process, as a Java starts slowly: each line of the standard input
// is an object of JSON with the class of a tool, its words and its input; each answer is one with its status and its output.
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

public class Tools {
    static class Ended extends Error {}

    // The status with which the tool has ended; null while it runs. Some catch what ends them, and end again.
    static Integer status;

    static void end(int with, String message) {
        if (status == null) {
            status = with;
            if (message != null) {
                System.err.println(message);
            }
            var nowhere = new PrintStream(OutputStream.nullOutputStream());
            System.setOut(nowhere);
            System.setErr(nowhere);
        }
        throw new Ended();
    }

    public static void main(String[] none) throws Exception {
        var json = new ObjectMapper();
        var input = new BufferedReader(new InputStreamReader(System.in));
        PrintStream answers = System.out;
        Exit.setExitProcedure(Tools::end);
        Exit.setHaltProcedure(Tools::end);
        List<Runnable> lastWorks = new ArrayList<>(); // kafka-console-producer sends the last lines in one
        Exit.setShutdownHookAdder((name, work) -> lastWorks.add(work));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            Map<String, Object> asked = json.readValue(line, Map.class);
            var output = new ByteArrayOutputStream();
            var printed = new PrintStream(output, true);
            System.setOut(printed);
            System.setErr(printed);
            System.setIn(new ByteArrayInputStream(((String) asked.get("input")).getBytes()));
            status = null;
            try {
                String[] words = ((List<String>) asked.get("words")).toArray(new String[0]);
                Class.forName((String) asked.get("tool")).getMethod("main", String[].class).invoke(null, (Object) words);
            } catch (InvocationTargetException error) {
                if (status == null) {
                    status = 1;
                    error.getCause().printStackTrace(printed);
                }
            }
            lastWorks.forEach(Runnable::run);
            lastWorks.clear();
            answers.println(json.writeValueAsString(Map.of("status", status == null ? 0 : status, "output", output.toString())));
        }
        System.exit(0);
    }
}
