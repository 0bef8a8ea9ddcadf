"""docs/how-to/temporal.md: its worker, with Temporal's own development server, dies and is started again."""

import json
import signal
import socket

from ports import free_port
from world import QUESTIONS, Cases, check, until

SLOW = "How many units were sold?"
# A control run without it: a retried activity must then make another run.
KEYED = "headers=key, "


class Temporal(Cases):
    page, script = "docs/how-to/temporal.md", "questions.toml"

    def __init__(self, world, programs):
        port = free_port()
        # Temporal's server asks the network for newer versions of itself otherwise.
        variables = {"TEMPORAL_ADDRESS": f"127.0.0.1:{port}", "TEMPORAL_VERSION_CHECK_DISABLED": "true"}
        super().__init__(world, programs, **variables)
        self.start_command, self.result_command = [step.command for step in self.content.commands("temporal workflow")]
        options = ["--headless", "--ip", "127.0.0.1", "--port", str(port), "--log-level", "error"]
        temporal = self.launch("temporal.log", programs / "temporal", "server", "start-dev", *options)
        until("Temporal", lambda: temporal.poll() is None and is_open(port), 60)

    def all(self):
        return [
            self.killed_worker_leaves_no_second_run,
            self.stopped_worker_cancels_no_run,
            self.cancelled_workflow_cancels_its_runs,
            self.control_without_a_key_makes_a_second_run,
        ]

    def worker(self, program="worker.py"):
        return self.launch("worker.log", "python", program)

    def start(self, workflow, questions=None):
        """The page's command, for another workflow and perhaps other questions. Returns the new runs, all unfinished."""
        before = self.world.runs()
        command = self.start_command.replace("sales-1", workflow)
        if questions:
            head, _ = command.rsplit("--input ", 1)
            command = f"{head} --input '{json.dumps(questions)}'"
        self.shell(command)
        count = len(questions or QUESTIONS)

        def begun():
            made = self.world.runs() - before
            return made if len(made) == count and self.world.have_begun(made) else None

        return until("runs", begun)

    def answers(self, workflow):
        self.shell(self.result_command.replace("sales-1", workflow))
        said = json.loads(self.shell(f"temporal workflow result --workflow-id {workflow} -o json"))
        return said["result"]

    def check_attempts(self, workflow, count):
        """Temporal started each activity `ask` more than once."""
        history = json.loads(self.shell(f"temporal workflow show --workflow-id {workflow} -o json"))["events"]
        asked = {
            event["eventId"]
            for event in history
            if event.get("activityTaskScheduledEventAttributes", {}).get("activityType", {}).get("name") == "ask"
        }
        started = [event.get("activityTaskStartedEventAttributes", {}) for event in history]
        attempts = [one["attempt"] for one in started if one.get("scheduledEventId") in asked]
        check(len(attempts) == count and min(attempts) > 1, f"attempts at the activities of {workflow}: {attempts}")

    def killed_worker_leaves_no_second_run(self):
        worker, before = self.worker(), self.world.runs()
        runs = self.start("sales-1")
        worker.kill()
        worker.wait()
        worker = self.worker()
        answers = self.answers("sales-1")
        self.check_attempts("sales-1", len(QUESTIONS))
        check(self.world.runs() - before == runs, f"other runs: {self.world.runs() - before}, not {runs}")
        check({answer["run"] for answer in answers} == runs, f"answers of other runs: {answers}")
        for answer, question in zip(answers, QUESTIONS, strict=True):
            text, dollars = self.world.check_run(answer["run"], question)
            check((answer["outcome"], answer["text"]) == ("answered", text), f"{question}: {answer}")
            check(abs(answer["dollars"] - dollars) < 1e-9, f"{question}: {answer}, not {dollars}")
        self.end(worker)

    def stopped_worker_cancels_no_run(self):
        worker, before = self.worker(), self.world.runs()
        runs = self.start("stopped", [SLOW])
        self.end(worker)
        check(all(self.world.run(run)["state"] == "running" for run in runs), "the run ended with its worker")
        worker = self.worker()
        answers = self.answers("stopped")
        check([answer["text"] for answer in answers] == ["620 units."], f"{answers}")
        self.check_attempts("stopped", 1)
        check(self.world.runs() - before == runs, "another run was made")
        self.end(worker)

    def cancelled_workflow_cancels_its_runs(self):
        worker = self.worker()
        runs = self.start("cancelled", [SLOW, SLOW])
        self.shell("temporal workflow cancel --workflow-id cancelled")

        def told():
            found = [self.world.run(run) for run in runs]
            return all(run["state"] == "finished" or "cancel" in run["asked"] for run in found)

        def ends():
            found = [self.world.run(run) for run in runs]
            return all(run["state"] == "finished" for run in found) and [run["end"]["outcome"] for run in found]

        # The page says 5 seconds; the rest is for a slow host.
        until("request to cancel the runs", told, 15)
        outcomes = until("end of the runs", ends, 60)
        check(outcomes == ["cancelled"] * 2, f"the runs ended otherwise: {outcomes}")
        self.shell("temporal workflow result --workflow-id cancelled", succeeds=False)
        self.end(worker)

    def control_without_a_key_makes_a_second_run(self):
        text = (self.work / "worker.py").read_text()
        check(text.count(KEYED) == 1, f"the page's program has no `{KEYED}`")
        (self.work / "keyless.py").write_text(text.replace(KEYED, ""))
        worker, before = self.worker("keyless.py"), self.world.runs()
        self.start("keyless", [SLOW])
        worker.kill()
        worker.wait()
        worker = self.worker("keyless.py")
        self.answers("keyless")
        made = self.world.runs() - before
        check(len(made) == 2, f"without a key, the retried activity made no second run: {made}")
        self.end(worker)

    def end(self, worker):
        """Ctrl-C, on which a worker stops in order."""
        worker.send_signal(signal.SIGINT)
        worker.wait(30)


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
