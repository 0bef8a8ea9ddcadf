"""Checks for schemathesis that know what our answers mean."""

from urllib.parse import parse_qs, urlsplit

import schemathesis
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection

# A request with such an answer was refused for its form, before anything was looked at.
FORMS = {"invalid_body", "invalid_query", "unreadable_body", "unreadable_header"}


@schemathesis.check
def what_is_allowed_is_read(_ctx, response, case):
    if case.meta is None or case.meta.generation.mode != GenerationMode.POSITIVE:
        return
    if response.status_code in (400, 422):
        code = response.json().get("code")
        assert code not in FORMS, f"the document allows it, and the server does not read it: {response.text}"


@schemathesis.check
def what_is_forbidden_is_refused(ctx, response, case):
    # An empty list leaves nothing in the URL: what was sent is then not what was made up.
    sent = parse_qs(urlsplit(response.request.url).query, keep_blank_values=True)
    if set(case.query or {}) <= set(sent):
        return negative_data_rejection(ctx, response, case)
    return None


@schemathesis.check
def the_server_does_not_fail(_ctx, response, _case):
    """A sandbox may end in the middle of a request; nothing else is the server's fault."""
    if response.status_code >= 500:
        ended = response.status_code == 503 and response.json().get("code") == "sandbox_gone"
        assert ended, f"{response.status_code}: {response.text}"
