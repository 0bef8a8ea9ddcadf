// An error in one part of a page leaves the others as they are.

import { Component } from "react";
import type { ReactNode } from "react";
import { Problem } from "./basics";

interface Props {
  what: string;
  children: ReactNode;
}

export class Boundary extends Component<Props, { error?: unknown }> {
  override state: { error?: unknown } = {};

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    if (this.state.error === undefined) return this.props.children;
    return <Problem error={this.state.error} what={this.props.what} retry={() => location.reload()} />;
  }
}
