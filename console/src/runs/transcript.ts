// The events of a run, put together turn by turn.

import { bytes, count, dollars, millis } from "../format";

/** An event as it comes: its kind says which fields it has. */
export interface RunEvent {
  seq: number;
  at: string;
  kind: string;
  turn?: number;
  // Fields of kinds that the console does not know are not read.
  [field: string]: unknown;
}

export interface Tokens {
  input: number;
  cache_read: number;
  cache_write: number;
  output: number;
}

export interface Artifact {
  name: string;
  media_type: string;
  content: { sha256: string; bytes: number };
}

export interface Note {
  seq: number;
  at: string;
  kind: string;
  text: string;
  tone?: "warn" | "bad";
  /** Another run that it is about. */
  run?: string;
}

export interface CallEnd {
  reason: string;
  exit_code?: number;
  shown: string;
  cut?: { shown_chars: number; total_chars: number };
  fault?: { category: string; message: string };
  used: { wall_micros: number; cpu_micros: number; peak_bytes?: number; output_bytes: number };
}

export interface CallView {
  id: string;
  name: string;
  input: Record<string, unknown>;
  started?: string;
  sandbox?: string;
  end?: CallEnd;
  artifacts: Artifact[];
  guards: string[];
  network?: { connections: number; refused: number; bytes: { in: number; out: number }; hosts?: string[] };
}

export interface TurnView {
  turn: number;
  seq: number;
  at: string;
  model?: string;
  /** Words that arrive, until the answer is there. */
  words: string;
  /** Length of `words` in code points. */
  wordCount: number;
  text: string;
  thinking: string;
  answered: boolean;
  tokens?: Tokens;
  nanoDollars: number;
  /** The provider did not report the cost: the reserved amount was charged. */
  isEstimate: boolean;
  micros: number;
  calls: CallView[];
  before: Note[];
  after: Note[];
  stage?: string;
}

interface Block {
  type: string;
  text?: string;
  id?: string;
  name?: string;
  input?: Record<string, unknown>;
}

const INJECTED: Record<string, string> = {
  operator: "You said", guard: "A guard said", restored: "The sandbox was restored", repair: "Asked to repair",
  final: "Told to answer now", turns_left_3: "Told that 3 turns are left", turns_left_1: "Told that 1 turn is left",
};

const REQUESTS: Record<string, string> = {
  pause: "asked to pause", resume: "asked to resume", cancel: "asked to cancel", tell: "sent a message", step: "asked for one step",
  budget: "asked for another budget", breakpoints: "set breakpoints", answer: "answered",
  decide: "decided on a call",
};

/** Names of limits, and the units of their amounts. */
const LIMITS: Record<string, [name: string, show: (amount: number) => string]> = {
  turns: ["turn", count], wall: ["time", millis], tokens: ["token", count],
  money: ["cost", dollars], output: ["output", bytes], cpu: ["CPU", millis],
};

interface Hold {
  point: string;
  turn?: number;
  call?: { turn: number; id: string };
  tool?: { tool: string };
}

/** The reason of a pause. Without a point, a request made it. */
function pausedAt(hold: Hold | undefined) {
  switch (hold?.point) {
    case "question": return "Paused for your answer";
    case "approval": return `Paused: a call of ${hold.tool?.tool ?? "a tool"} waits for approval`;
    case "turn": return `Paused before turn ${hold.turn}`;
    case "call": return "Paused before a call";
    default: return "Paused";
  }
}

function clearWords(turn: TurnView) {
  turn.words = "";
  turn.wordCount = 0;
}

/** Everything that is known of a run from its events. It grows; readers look at `version`. */
export class Transcript {
  readonly turns: TurnView[] = [];
  readonly start: Note[] = [];
  readonly raw: string[] = [];
  readonly artifacts: Artifact[] = [];
  tokens: Tokens = { input: 0, cache_read: 0, cache_write: 0, output: 0 };
  egress = { in: 0, out: 0, refused: 0 };
  version = 0;
  seq = 0;
  first?: string;
  last?: string;
  sandbox?: string;
  isFinished = false;
  private stage?: string;
  /** The last turn of which there is an event. A delta may be of a later one. */
  private reached = 0;

  add(name: string, data: string) {
    const event = JSON.parse(data) as RunEvent;
    this.version += 1;
    if (name === "delta") return this.word(event);
    if (event.seq <= this.seq) return;
    this.seq = event.seq;
    this.first ??= event.at;
    this.last = event.at;
    this.raw.push(data);
    this.read(event);
  }

  private word(event: RunEvent) {
    const turn = this.open(event.turn ?? 1, event);
    const from = event["from"] as number;
    // At 0 the answer begins anew. Words from before the reader came are missing until it is there.
    if (from === 0) clearWords(turn);
    if (turn.answered || from !== turn.wordCount) return;
    const text = event["text"] as string;
    turn.words += text;
    turn.wordCount += Array.from(text).length;
  }

  /** The turn of an event. */
  private turn(number: number, event: RunEvent): TurnView {
    this.reached = Math.max(this.reached, number);
    return this.open(number, event);
  }

  /** Finds a turn, or inserts it in the order of numbers: deltas of a turn may come before the replay of earlier ones. */
  private open(number: number, event: RunEvent): TurnView {
    const before = this.turns.findLastIndex((it) => it.turn <= number);
    const known = this.turns[before];
    if (known?.turn === number) return known;
    const turn: TurnView = {
      turn: number, seq: event.seq, at: event.at ?? new Date().toISOString(), words: "", wordCount: 0, text: "", thinking: "",
      answered: false, nanoDollars: 0, isEstimate: false, micros: 0, calls: [], before: [], after: [], stage: this.stage,
    };
    this.turns.splice(before + 1, 0, turn);
    return turn;
  }

  private call(event: RunEvent): CallView | undefined {
    const call = event["call"] as { turn: number; id: string } | undefined;
    if (!call) return undefined;
    const turn = this.turn(call.turn, event);
    let found = turn.calls.find((it) => it.id === call.id);
    if (!found) {
      found = { id: call.id, name: (event["name"] as string | undefined) ?? "", input: {}, artifacts: [], guards: [] };
      turn.calls.push(found);
    }
    return found;
  }

  private note(event: RunEvent, text: string, rest: Partial<Note> = {}) {
    const note = { seq: event.seq, at: event.at, kind: event.kind, text, ...rest };
    (this.turns.findLast((it) => it.turn <= this.reached)?.after ?? this.start).push(note);
  }

  private read(event: RunEvent) {
    switch (event.kind) {
      case "llm_requested": {
        const turn = this.turn(event.turn ?? 1, event);
        turn.model = event["model"] as string;
        // A delta that came first knew neither.
        turn.at = event.at;
        turn.stage = this.stage;
        return;
      }
      case "llm_responded":
        return this.answer(event);
      case "llm_failed": {
        const turn = this.turn(event.turn ?? 1, event);
        turn.nanoDollars += event["nano_dollars"] as number;
        clearWords(turn);
        turn.before.push({ seq: event.seq, at: event.at, kind: event.kind, tone: "warn", text: `Request ${event["trouble"] as string}: ${event["message"] as string}` });
        return;
      }
      case "sandbox_attached":
        this.sandbox = event["sandbox"] as string;
        return;
      case "artifact_added": {
        const artifact = event as unknown as Artifact;
        this.artifacts.push(artifact);
        this.call(event)?.artifacts.push(artifact);
        return;
      }
      case "injected_message": {
        const words = `${INJECTED[event["why"] as string] ?? String(event["why"])}: ${event["text"] as string}`;
        this.turn(event.turn ?? 1, event).before.push({ seq: event.seq, at: event.at, kind: event.kind, text: words });
        return;
      }
      default:
        return this.readCall(event) || this.readLife(event);
    }
  }

  private answer(event: RunEvent) {
    const turn = this.turn(event.turn ?? 1, event);
    const blocks = event["blocks"] as Block[];
    const texts = (type: string) => blocks.filter((it) => it.type === type).map((it) => it.text ?? "").join("\n\n");
    turn.answered = true;
    clearWords(turn);
    turn.text = texts("text");
    turn.thinking = texts("thinking");
    turn.tokens = event["tokens"] as Tokens;
    turn.nanoDollars += event["nano_dollars"] as number;
    turn.isEstimate ||= event["assumed"] === true;
    turn.micros = event["micros"] as number;
    for (const kind of ["input", "cache_read", "cache_write", "output"] as const) this.tokens[kind] += turn.tokens[kind];
    for (const block of blocks.filter((it) => it.type === "tool_use")) {
      turn.calls.push({ id: block.id ?? "", name: block.name ?? "", input: block.input ?? {}, artifacts: [], guards: [] });
    }
  }

  private readCall(event: RunEvent): boolean {
    const kinds = ["tool_intended", "tool_started", "tool_finished", "guard_reported", "network_used"];
    const call = kinds.includes(event.kind) ? this.call(event) : undefined;
    if (!call) return false;
    if (event.kind === "tool_started") {
      call.started = event.at;
      call.sandbox = event["sandbox"] as string;
    } else if (event.kind === "tool_finished") {
      call.end = event as unknown as CallEnd;
    } else if (event.kind === "guard_reported") {
      call.guards.push(event["message"] as string);
    } else if (event.kind === "network_used") {
      call.network = event as unknown as NonNullable<CallView["network"]>;
      this.egress.in += call.network.bytes.in;
      this.egress.out += call.network.bytes.out;
      this.egress.refused += call.network.refused;
    }
    return true;
  }

  private readLife(event: RunEvent) {
    switch (event.kind) {
      case "stage_changed":
        this.stage = `${event["stage"] as string} ${event["attempt"] as number}`;
        return;
      case "stage_message":
        return this.note(event, JSON.stringify(event["message"], null, 2));
      case "forked_from":
        return this.note(event, "Another attempt, forked from the run", { run: event["parent"] as string });
      case "lease_taken":
        if (event["took_over"]) this.note(event, `Taken over from ${event["took_over"] as string}`, { tone: "warn" });
        return;
      case "limit_hit": {
        const { limit, used, allowed } = event as unknown as { limit: string; used: number; allowed: number };
        const [name, show] = LIMITS[limit] ?? [limit, count];
        return this.note(event, `The ${name} budget is used up: ${show(used)} of ${show(allowed)}`, { tone: "warn" });
      }
      case "control_requested": {
        const words = event["text"] ? `: ${event["text"] as string}` : "";
        return this.note(event, `You ${REQUESTS[event["request"] as string] ?? String(event["request"])}${words}`);
      }
      case "paused":
        return this.note(event, pausedAt(event["hold"] as Hold | undefined));
      case "resumed":
        return this.note(event, "Resumed");
      case "cancelled":
        return this.note(event, "Cancelled", { tone: "warn" });
      case "budget_changed":
        return this.note(event, "The budget was changed");
      case "parameter_deviated":
        return this.note(event, `The parameter ${event["parameter"] as string} was not in force as chosen`, { tone: "warn" });
      case "snapshot_refused":
        return this.note(event, `No checkpoint: ${event["reason"] as string}`, { tone: "warn" });
      case "finished":
        this.isFinished = true;
    }
  }
}
