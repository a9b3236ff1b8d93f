/** The fragment is the state's, so a jump within the page is made by hand. */
export function toResults(event: Event): void {
  event.preventDefault();
  const results = document.getElementById('results')!;
  results.focus({ preventScroll: true });
  results.scrollIntoView();
}
