import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import jdk.jshell.Diag;
import jdk.jshell.EvalException;
import jdk.jshell.JShell;
import jdk.jshell.JShellException;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis.CompletionInfo;
import sun.misc.Signal;

/**
 * A stateful Java context, driven over descriptor 3.
 *
 * <p>Cells are snippets of the JDK's own shell and run in this process. Messages are fields that
 * end in a zero byte, framed by their length; answers are frames of JSON. The environment of a
 * process cannot be changed from Java, so variables, those of the sandbox too, are properties.
 */
final class Context {
    private static final String[] IMPORTS = {
        "java.io.*", "java.math.*", "java.net.*", "java.nio.file.*", "java.time.*", "java.util.*",
        "java.util.concurrent.*", "java.util.function.*", "java.util.regex.*", "java.util.stream.*",
    };

    private final DataInputStream input;
    private final OutputStream output;
    private final JShell shell;
    private volatile boolean running;
    private volatile boolean interrupted;
    private int count;

    private Context() throws Exception {
        var descriptor = FileDescriptor.class.getDeclaredConstructor(int.class);
        descriptor.setAccessible(true);
        input = new DataInputStream(new FileInputStream(descriptor.newInstance(3)));
        output = new FileOutputStream(descriptor.newInstance(3));
        System.setOut(new PrintStream(new Stream("stdout"), true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(new Stream("stderr"), true, StandardCharsets.UTF_8));
        System.getenv().forEach(System.getProperties()::putIfAbsent);
        shell = JShell.builder().executionEngine("local").out(System.out).err(System.err).build();
        for (String name : IMPORTS) {
            shell.eval("import " + name + ";");
        }
        Signal.handle(new Signal("INT"), signal -> {
            if (running) {
                interrupted = true;
                shell.stop();
            }
        });
    }

    public static void main(String[] arguments) throws Exception {
        var context = new Context();
        context.say("\"ev\":\"ready\",\"language\":\"java\",\"version\":" + quoted(System.getProperty("java.version"))
            + ",\"pid\":" + ProcessHandle.current().pid());
        try {
            while (true) {
                context.turn();
            }
        } catch (EOFException gone) {
            Runtime.getRuntime().halt(0);
        }
    }

    private void turn() throws IOException {
        var fields = new ArrayList<String>();
        byte[] body = input.readNBytes(Integer.reverseBytes(input.readInt()));
        for (int start = 0, at = 0; at < body.length; at++) {
            if (body[at] == 0) {
                fields.add(new String(body, start, at - start, StandardCharsets.UTF_8));
                start = at + 1;
            }
        }
        var before = new HashMap<String, String>();
        for (int at = 4; at + 1 < fields.size(); at += 2) {
            before.put(fields.get(at), System.setProperty(fields.get(at), fields.get(at + 1)));
        }
        interrupted = false;
        running = true;
        boolean ok = cell(fields.get(2));
        running = false;
        for (Map.Entry<String, String> entry : before.entrySet()) {
            if (entry.getValue() == null) {
                System.clearProperty(entry.getKey());
            } else {
                System.setProperty(entry.getKey(), entry.getValue());
            }
        }
        System.out.flush();
        System.err.flush();
        count++;
        say("\"ev\":\"done\",\"id\":" + fields.get(1) + ",\"ok\":" + ok + ",\"count\":" + count);
    }

    /** Runs a cell; whether it came to its end. */
    private boolean cell(String code) throws IOException {
        SnippetEvent last = null;
        String rest = code;
        while (!rest.isBlank()) {
            CompletionInfo next = shell.sourceCodeAnalysis().analyzeCompletion(rest);
            String source = next.source() == null ? rest : next.source();
            rest = next.source() == null ? "" : next.remaining();
            for (SnippetEvent event : shell.eval(source)) {
                // Others are snippets that this one changed.
                if (event.causeSnippet() == null) {
                    last = event;
                    if (interrupted) {
                        return failed("Interrupted", "the cell was interrupted", List.of());
                    }
                    if (event.exception() != null) {
                        return failed(event.exception());
                    }
                    if (event.status() == Snippet.Status.REJECTED) {
                        return rejected(event.snippet());
                    }
                }
            }
        }
        boolean valued = last != null && last.snippet().kind() == Snippet.Kind.EXPRESSION
            || last != null && last.snippet().subKind() == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND;
        if (valued && last.value() != null && !last.value().isEmpty()) {
            say("\"ev\":\"result\",\"data\":{\"text/plain\":" + quoted(last.value()) + "}");
        }
        return true;
    }

    private boolean rejected(Snippet snippet) throws IOException {
        var lines = new ArrayList<String>();
        shell.diagnostics(snippet).filter(Diag::isError).forEach(problem -> lines.add(problem.getMessage(null)));
        return failed("CompilationError", String.join("\n", lines), lines);
    }

    private boolean failed(JShellException error) throws IOException {
        String name = error instanceof EvalException thrown ? thrown.getExceptionClassName() : error.getClass().getName();
        var lines = new ArrayList<String>();
        lines.add(name + ": " + error.getMessage());
        for (StackTraceElement frame : error.getStackTrace()) {
            lines.add("    at " + frame);
        }
        return failed(name.substring(name.lastIndexOf('.') + 1), String.valueOf(error.getMessage()), lines);
    }

    private boolean failed(String name, String value, List<String> traceback) throws IOException {
        var lines = traceback.stream().map(Context::quoted).toList();
        say("\"ev\":\"error\",\"name\":" + quoted(name) + ",\"value\":" + quoted(value)
            + ",\"traceback\":[" + String.join(",", lines) + "]");
        return false;
    }

    private synchronized void say(String fields) throws IOException {
        byte[] body = ("{" + fields + "}").getBytes(StandardCharsets.UTF_8);
        var frame = new byte[4 + body.length];
        for (int at = 0; at < 4; at++) {
            frame[at] = (byte) (body.length >> 8 * at);
        }
        System.arraycopy(body, 0, frame, 4, body.length);
        output.write(frame);
    }

    private static String quoted(String text) {
        var quoted = new StringBuilder("\"");
        text.codePoints().forEach(c -> {
            if (c == '"' || c == '\\') {
                quoted.append('\\').appendCodePoint(c);
            } else if (c < ' ') {
                quoted.append(String.format("\\u%04x", c));
            } else {
                // A surrogate without its partner is no UTF-8.
                quoted.appendCodePoint(c >= 0xd800 && c < 0xe000 ? 0xfffd : c);
            }
        });
        return quoted.append('"').toString();
    }

    /** Standard output or error output; the end of a line is an event of its own. */
    private final class Stream extends OutputStream {
        private final String kind;
        private final ByteArrayOutputStream held = new ByteArrayOutputStream();

        Stream(String kind) {
            this.kind = kind;
        }

        @Override
        public void write(int one) {
            held.write(one);
        }

        @Override
        public void write(byte[] bytes, int start, int length) {
            held.write(bytes, start, length);
        }

        @Override
        public void flush() throws IOException {
            String text = held.toString(StandardCharsets.UTF_8);
            held.reset();
            boolean ended = text.length() > 1 && text.endsWith("\n");
            emit(ended ? text.substring(0, text.length() - 1) : text);
            emit(ended ? "\n" : "");
        }

        private void emit(String text) throws IOException {
            if (!text.isEmpty()) {
                say("\"ev\":\"" + kind + "\",\"text\":" + quoted(text));
            }
        }
    }
}
