package run

import (
	"fmt"
	"slices"
	"strings"
)

// pick returns those of all that are named in list, in all's order; all of them when list is empty. It fails on a name
// that is not there, and says which one was probably meant.
func pick(what string, all, list []string) ([]string, error) {
	if len(list) == 0 {
		return all, nil
	}
	for _, name := range list {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("there is no %s %q; did you mean %q? There are: %s",
				what, name, nearest(name, all), strings.Join(all, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(n string) bool { return !slices.Contains(list, n) }), nil
}

// nearest returns the name that takes the fewest edits to write for what was given.
func nearest(given string, all []string) string {
	return slices.MinFunc(all, func(a, b string) int { return distance(given, a) - distance(given, b) })
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
