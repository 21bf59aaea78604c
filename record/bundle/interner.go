package bundle

import (
	"weir/record"
	"weir/record/summary"
)

// interner keeps one copy of each set of labels: a series of a million points has a handful of them.
type interner map[summary.Key]record.Labels

// labels returns the copy of read; an empty set is nil.
func (in interner) labels(read map[string]string) record.Labels {
	if len(read) == 0 {
		return nil
	}
	key := summary.KeyOf(read, "", "", "")
	have, known := in[key]
	if !known {
		have = read
		in[key] = have
	}
	return have
}
