// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Where answers come from: the server, or, in an exported page, the page itself.

export type Question = Record<string, unknown>;

export interface Source {
  ask<Answer>(name: string, question: Question): Promise<Answer>;
}

/** A sentence for the user: what was asked cannot be answered. */
export class Refused extends Error {}

export class HttpSource implements Source {
  async ask<Answer>(name: string, question: Question): Promise<Answer> {
    let response: Response;
    try {
      response = await fetch(`/api/${name}`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(question),
      });
    } catch {
      throw new Refused("unreachable");
    }
    const answer = (await response.json()) as Answer & { error?: string };
    if (!response.ok) throw new Refused(answer.error ?? `status ${response.status}`);
    return answer;
  }
}
