// Turns a flat list of events into sessions, and prints them as JSON.

const events = [
  { user: "ada", at: 0, page: "/home" },
  { user: "bob", at: 5, page: "/home" },
  { user: "ada", at: 20, page: "/pricing" },
  { user: "ada", at: 400, page: "/home" },
  { user: "bob", at: 30, page: "/docs" },
];

// A pause longer than this many seconds begins another session.
const PAUSE = 120;

const sessions = [];
const open = new Map();

for (const { user, at, page } of [...events].sort((a, b) => a.at - b.at)) {
  let session = open.get(user);
  if (!session || at - session.end > PAUSE) {
    session = { user, start: at, end: at, pages: [] };
    open.set(user, session);
    sessions.push(session);
  }
  session.end = at;
  session.pages.push(page);
}

console.log(JSON.stringify(sessions, null, 2));
