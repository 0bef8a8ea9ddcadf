//! Requests, answers and errors of the HTTP API under `/v1`.
