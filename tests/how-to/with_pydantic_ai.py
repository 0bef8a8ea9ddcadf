"""docs/how-to/pydantic-ai.md: its agent computes in a sandbox, and is told of an exception."""

from world import Cases, check


class PydanticAi(Cases):
    page, script = "docs/how-to/pydantic-ai.md", "pydantic-ai.toml"

    def __init__(self, world, programs):
        variables = {
            "MODEL": "openai-chat:scripted",
            "OPENAI_BASE_URL": f"http://{world.model_address}/v1",
            "OPENAI_API_KEY": world.model_key,
        }
        super().__init__(world, programs, **variables)
        (self.step,) = self.content.commands("python agent.py")

    def all(self):
        return [self.agent_computes_its_answer, self.sandbox_ends_with_the_agent]

    def agent_computes_its_answer(self):
        self.shows(self.step, self.shell(self.step.command))

    def sandbox_ends_with_the_agent(self):
        ended = self.world.ask("/ended?limit=100")["items"]
        check([one["reason"] for one in ended] == ["killed"], f"not one sandbox that was killed: {ended}")
        check(not self.world.server.sandboxes(), "a sandbox is left")
