"""docs/how-to/langgraph.md: its program dies in the middle of three runs, and goes on from its checkpoint."""

from world import QUESTIONS, Cases, check, until

# A control run without it: the program that goes on must then make further runs.
KEYED = "headers=key, "


class LangGraph(Cases):
    page, script = "docs/how-to/langgraph.md", "questions.toml"

    def __init__(self, world, programs):
        super().__init__(world, programs)
        (self.step,) = self.content.commands("python ask.py")

    def all(self):
        return [
            self.killed_program_adopts_its_runs,
            self.ended_thread_asks_nothing,
            self.control_without_a_key_makes_further_runs,
        ]

    def kill(self, command):
        """Kills the program when its runs have begun. Returns them."""
        before = self.world.runs()
        program = self.launch("program.log", "bash", "-c", f"exec {command}")

        def begun():
            check(program.poll() is None, f"the program ended with {program.returncode}")
            made = self.world.runs() - before
            return made if len(made) == len(QUESTIONS) and self.world.have_begun(made) else None

        made = until("runs", begun)
        program.kill()
        program.wait()
        return made

    def killed_program_adopts_its_runs(self):
        before = self.world.runs()
        runs = self.kill(self.step.command)
        self.shows(self.step, self.shell(self.step.command))
        check(self.world.runs() - before == runs, f"other runs: {self.world.runs() - before}, not {runs}")
        asked = {self.world.run(run)["question"]: run for run in runs}
        check(asked.keys() == QUESTIONS.keys(), f"other questions: {asked}")
        for question, run in asked.items():
            self.world.check_run(run, question)

    def ended_thread_asks_nothing(self):
        before = self.world.runs()
        self.shows(self.step, self.shell(self.step.command))
        check(self.world.runs() == before, "a thread that had its answers asked again")

    def control_without_a_key_makes_further_runs(self):
        text = (self.work / "ask.py").read_text()
        check(text.count(KEYED) == 1, f"the page's program has no `{KEYED}`")
        (self.work / "keyless.py").write_text(text.replace(KEYED, ""))
        command = self.step.command.replace("ask.py sales-1", "keyless.py sales-2")
        runs, before = self.kill(command), self.world.runs()
        self.shows(self.step, self.shell(command))
        further = self.world.runs() - before
        check(len(further) == len(runs), f"without a key, the program that went on made {len(further)} runs")
