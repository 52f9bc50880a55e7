package config

import "fmt"

// didYouMean is a hint at the nearest key, or nothing.
func didYouMean(path string) string {
	names := make([]string, 0, len(Keys()))
	for _, k := range Keys() {
		names = append(names, k.Path)
	}
	if near := Nearest(path, names); len(near) > 0 {
		return fmt.Sprintf(" (did you mean %q?)", near[0])
	}
	return ""
}

// Nearest returns those of names that differ least from word, best first, at most
// three; none when nothing is near enough to be a slip of the finger.
func Nearest(word string, names []string) []string {
	best := make([][]string, max(2, len(word)/3)+1)
	for _, name := range names {
		if d := distance(word, name); d < len(best) {
			best[d] = append(best[d], name)
		}
	}
	var near []string
	for _, some := range best {
		near = append(near, some...)
	}
	return near[:min(3, len(near))]
}

// distance counts insertions, deletions, replacements and swaps of neighbours.
func distance(a, b string) int {
	var before, last, now []int
	last = make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		now = make([]int, len(b)+1)
		now[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			now[j+1] = min(last[j]+cost, last[j+1]+1, now[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				now[j+1] = min(now[j+1], before[j-1]+1)
			}
		}
		before, last = last, now
	}
	return last[len(b)]
}
