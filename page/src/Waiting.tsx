// What stands in the place of an answer that is not there yet, or never will be.
import type { Answer } from "./ask";

export function Waiting({ answer, words }: { answer: Answer<unknown>; words: string }) {
  return answer.wrong ? (
    <p class="nothing" role="alert">
      No answer: {answer.wrong}
    </p>
  ) : (
    <p class="nothing" role="status">
      {words} …
    </p>
  );
}
