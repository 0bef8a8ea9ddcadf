"""One more check for schemathesis: what the document allows can be read."""

import schemathesis
from schemathesis import GenerationMode

# A request with such an answer was refused for its form, before anything was looked at.
FORMS = {"invalid_body", "invalid_query", "unreadable_body", "unreadable_header"}


@schemathesis.check
def what_is_allowed_is_read(_ctx, response, case):
    meta = case.meta
    if meta is None or meta.generation.mode != GenerationMode.POSITIVE:
        return
    if response.status_code in (400, 422):
        code = response.json().get("code")
        assert code not in FORMS, f"the document allows it, and the server does not read it: {response.text}"
