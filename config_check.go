package anvil

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

var namePattern = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)

// checkName checks the name of a source, queue or endpoint.
func checkName(kind, name string) error {
	article := "a"
	if kind == "endpoint" {
		article = "an"
	}
	switch lower := strings.ToLower(name); {
	case namePattern.MatchString(name):
		return nil
	case name == "":
		return fmt.Errorf("the %s needs a name", kind)
	case namePattern.MatchString(lower):
		return fmt.Errorf("'%s' is not %s %s name; did you mean '%s'?", name, article, kind, lower)
	}
	return fmt.Errorf("'%s' is not %s %s name: use a lower-case letter, then at most 62 lower-case letters, digits, '-' and '_'",
		name, article, kind)
}

// bound is a number that must be positive and, unless limit is 0, at most limit.
type bound struct {
	word  string
	value int64
	limit int64
	unit  func(int64) string
}

func (b bound) check() error {
	switch {
	case b.value <= 0:
		return fmt.Errorf("%s must be greater than zero", b.word)
	case b.limit > 0 && b.value > b.limit:
		return fmt.Errorf("%s must be at most %s, not %s", b.word, b.unit(b.limit), b.unit(b.value))
	}
	return nil
}

// checkSet checks those numbers that are set; zero stands for the default.
func checkSet(bounds ...bound) error {
	for _, b := range bounds {
		if b.value == 0 {
			continue
		}
		if err := b.check(); err != nil {
			return err
		}
	}
	return nil
}

func countUnit(n int64) string { return strconv.FormatInt(n, 10) }
func timeUnit(n int64) string  { return time.Duration(n).String() }
func bytesUnit(n int64) string { return humanize.IBytes(uint64(n)) } //nolint:gosec // shown only when positive

// suggest ends an error about an unknown word: with the known word that was probably meant, else with all of them.
func suggest(word string, known []string) string {
	if hint := meant(word, known); hint != "" {
		return hint
	}
	all := slices.Sorted(slices.Values(known))
	return "; known here: " + strings.Join(all, ", ")
}

// meant is the first half of suggest, empty when no known word is near.
func meant(word string, known []string) string {
	best, bestDistance := "", 3 // two typing errors still make a hint, more make a guess
	for _, k := range known {
		if d := editDistance(word, k); d < bestDistance && d < len(k) {
			best, bestDistance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean '" + best + "'?"
}

// editDistance counts the letters to insert, remove, replace or swap with the next one (optimal string alignment). The
// words are short: the configuration's author writes one, the other is ours.
func editDistance(a, b string) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			cost := row[j]
			if a[i] != b[j] {
				cost++
			}
			next[j+1] = min(cost, next[j]+1, row[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
