// Stands in for the provider of a model; put calls of yours in its place.

// At most so many tokens are these messages.  No tokenizer that works on bytes makes more
// tokens than there are bytes; some more go for what a provider puts around a message.
export const countTokens = (messages) =>
  messages.reduce((sum, { content }) => sum + Buffer.byteLength(content) + 8, 0)

// One turn, with at most maxTokens of answer.  "tokens" is what the provider bills, prompt
// and answer; "done" is false if the model wants another turn, to see what a tool has said.
export async function chat({ messages, maxTokens }) {
  const content = `You said: ${messages[0].content}`.slice(0, maxTokens)
  const answer = { role: 'assistant', content }
  return { messages: [answer], tokens: Math.ceil(countTokens([...messages, answer]) / 4), done: true }
}

export async function embed({ input }) {
  return { embedding: [input.length], tokens: Math.ceil(Buffer.byteLength(input) / 4) }
}
