// The chat of npm `ai`, without a page around it.

/** What `useChat` of the framework packages is made of, with a state that nobody renders. */
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
