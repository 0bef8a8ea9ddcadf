"""Hugging Face's smolagents with its E2B executor: packages that an agent may import are installed into the sandbox."""

import os

from checks import check, main, same
from smolagents import CodeAgent, OpenAIServerModel, tool
from smolagents.monitoring import AgentLogger, LogLevel
from smolagents.remote_executors import E2BExecutor


@tool
def shout(text: str) -> str:
    """Says it loudly.

    Args:
        text: What is said.
    """
    return text.upper() + "!"


class Executor:
    """The executor alone, with its sandbox."""

    def __init__(self, *imports):
        self.imports = list(imports)

    def __enter__(self):
        self.executor = E2BExecutor(self.imports, AgentLogger(level=LogLevel.ERROR))
        return self.executor

    def __exit__(self, *_):
        self.executor.cleanup()


@check
def an_agent_imports_what_it_is_authorized_to():
    model = OpenAIServerModel("scripted", api_base=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"])
    imports, quiet = ["humanize"], {"executor_type": "e2b", "verbosity_level": LogLevel.ERROR}
    with CodeAgent([shout], model, additional_authorized_imports=imports, **quiet) as agent:
        same(agent.run("Write a number."), ["1,234,567", "1.0 MB", "DONE!"])


@check
def what_is_installed_is_imported_by_code_that_runs_already():
    with Executor() as executor:
        executor("before = 1")
        executor.install_packages(["inflection"])
        same(executor("import inflection\ninflection.camelize('done_so'), before").output, "('DoneSo', 1)")


@check
def variables_and_state_are_kept():
    with Executor() as executor:
        executor.send_variables({"rows": [1, 2, 3]})
        executor("total = sum(rows)")
        result = executor("print('seen')\ntotal * 7")
        same((result.output, result.logs.strip()), ("42", "seen"))


@check
def an_error_of_the_code_is_told():
    with Executor() as executor:
        try:
            executor("1 / 0")
        except Exception as error:
            assert "ZeroDivisionError" in str(error), error
        else:
            raise AssertionError("no error was told")


main()
