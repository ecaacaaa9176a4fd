// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
import { Refused, type Question, type Source } from "./source";

export class EmbeddedSource implements Source {
  constructor(readonly content: unknown) {}
  ask<Answer>(name: string, _question: Question): Promise<Answer> {
    return Promise.reject(new Refused(name));
  }
}
