// The chat of npm `ai` without a page.

/** The class that `useChat` of the framework packages wraps, with a state that is not rendered. */
export function chatOf(ai) {
  class State {
    status = "ready";
    error = undefined;
    constructor(messages) {
      this.messages = messages;
    }
    pushMessage = (message) => (this.messages = [...this.messages, message]);
    popMessage = () => (this.messages = this.messages.slice(0, -1));
    replaceMessage = (index, message) => (this.messages = this.messages.with(index, message));
    snapshot = (value) => structuredClone(value);
  }
  return class extends ai.AbstractChat {
    constructor({ messages = [], ...options }) {
      super({ ...options, state: new State(messages) });
    }
  };
}
