export function TourPanel() { return null; }
