// Has Node.js use the way out unasked: `fetch`, `http` and `https` then go to the
// proxy that the environment names. Newer versions do some of it by themselves
// (NODE_USE_ENV_PROXY), and are let. Loaded before every program (NODE_OPTIONS),
// so it changes nothing but how connections are made.
"use strict";

const http = require("node:http");
const https = require("node:https");
const net = require("node:net");
const tls = require("node:tls");

/** The proxy for a destination; none if it is reached directly. */
function proxyOf(protocol, host) {
  const variable = (name) => process.env[name] || process.env[name.toUpperCase()];
  const direct = (variable("no_proxy") || "").split(",").map((name) => name.trim().toLowerCase());
  const name = host.toLowerCase();
  const isDirect = (entry) => entry && (entry === "*" || name === entry || name.endsWith(`.${entry.replace(/^\./, "")}`));
  const proxy = variable(`${protocol}_proxy`);
  return proxy && !direct.some(isDirect) ? new URL(proxy) : undefined;
}

/** Asks the proxy for a connection; what it refuses is an error that says why. */
function tunnel(proxy, host, port, done) {
  const place = `${net.isIPv6(host) ? `[${host}]` : host}:${port}`;
  const request = http.request({
    method: "CONNECT",
    path: place,
    headers: { host: place },
    // Without an agent: this must not be sent through the proxy itself.
    createConnection: () => net.connect(Number(proxy.port || 80), proxy.hostname),
  });
  request.once("connect", (answer, socket) => {
    if (answer.statusCode === 200) return done(null, socket);
    socket.destroy();
    const reason = answer.headers["x-belljar-reason"] || answer.statusCode;
    done(Object.assign(new Error(`the way out is closed to ${place}: ${reason}`), { code: "ERR_PROXY_TUNNEL" }));
  });
  request.once("error", done);
  request.end();
}

/** Has every agent of `module` that makes connections the usual way ask the proxy. */
function redirect(module, protocol, wrap) {
  const usual = module.Agent.prototype.createConnection;
  module.Agent.prototype.createConnection = function createConnection(options, done) {
    const host = options.host || "localhost";
    const isPlace = typeof options === "object" && !options.socketPath && typeof done === "function";
    // One with `proxyEnv` does so by itself.
    const proxy = isPlace && !this.options.proxyEnv ? proxyOf(protocol, host) : undefined;
    if (!proxy) return usual.apply(this, arguments);
    tunnel(proxy, host, options.port, (error, socket) => {
      if (error) return done(error);
      done(null, wrap ? usual.call(this, { ...options, socket }) : socket);
    });
  };
}

/** How `fetch` makes a connection. */
function connect({ protocol, hostname, port, servername }, done) {
  const isSecure = protocol === "https:";
  const host = hostname.replace(/^\[|\]$/g, "");
  const place = Number(port || (isSecure ? 443 : 80));
  const proxy = proxyOf(isSecure ? "https" : "http", host);
  const ready = (error, through) => {
    if (error) return done(error);
    if (!isSecure && through) return done(null, through);
    const name = servername || (net.isIP(host) ? undefined : host);
    const socket = isSecure
      ? tls.connect({ host, port: place, socket: through, servername: name, ALPNProtocols: ["http/1.1"] })
      : net.connect(place, host);
    socket.once("error", done);
    socket.once(isSecure ? "secureConnect" : "connect", () => {
      socket.off("error", done);
      done(null, socket);
    });
  };
  if (proxy) tunnel(proxy, host, place, ready);
  else ready(null);
}

/** `fetch` is loaded when it is used first; only then is its dispatcher known. */
function redirectFetch() {
  const key = Symbol.for("undici.globalDispatcher.1");
  const usual = globalThis.fetch;
  globalThis.fetch = function fetch(input, init = undefined) {
    // A program that has chosen a dispatcher keeps it, and so does Node.js.
    if (globalThis[key] === undefined) {
      void new globalThis.Headers();
      const Agent = globalThis[key]?.constructor;
      if (Agent) globalThis[key] = new Agent({ connect });
    }
    return usual(input, init);
  };
}

redirect(http, "http", false);
redirect(https, "https", true);
if (typeof globalThis.fetch === "function") redirectFetch();
