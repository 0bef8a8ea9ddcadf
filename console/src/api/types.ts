// Names for the types of `openapi.json` that several pages use.

import type { components } from "./schema";

type Schemas = components["schemas"];
export type Approval = Schemas["Approval"];
export type ApprovalToolCall = Schemas["ApprovalToolCall"];
export type Connection = Schemas["Connection"];
export type CreateRun = Schemas["CreateRun"];
export type Ended = Schemas["Ended"];
export type Entry = Schemas["Entry"];
export type Run = Schemas["Run"];
export type RunBudget = Schemas["RunBudget"];
export type RunFile = Schemas["RunFile"];
export type RunLine = Schemas["RunLine"];
export type RunState = Schemas["RunState"];
export type Sandbox = Schemas["Sandbox"];
export type Turn = Schemas["Turn"];
export type TurnConnection = Schemas["TurnConnection"];
export type UsageAmounts = Schemas["UsageAmounts"];
export type UsageGroup = Schemas["UsageGroup"];
export type Workflow = Schemas["Workflow"];
export type WorkflowStep = Schemas["WorkflowStep"];
