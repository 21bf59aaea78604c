// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"weir/record"
	"weir/record/summary"
)

// interner stores each text and set of labels once, because a million points share a few, and
// counts their memory.
type interner struct {
	sets  map[summary.Key]record.Labels
	texts map[string]string
	left  int // bytes that may still be stored
	read  int // bytes of text that may still be read, including repeated ones
}

func newKeeper(fileSize int) *interner {
	return &interner{map[summary.Key]record.Labels{}, map[string]string{}, keptMemory + keptPerByte*fileSize, maxOctets}
}

func (k *interner) spend(octets int) error {
	if k.left -= octets; k.left < 0 || k.read < 0 {
		return errExpands
	}
	return nil
}

// text returns the stored copy of read. The next spend reports an excess.
func (k *interner) text(read string) string {
	if read == "" {
		return ""
	}
	k.read -= len(read)
	have, known := k.texts[read]
	if !known {
		have = read
		k.texts[have] = have
		k.left -= 2*len(read) + 64
	}
	return have
}

// labels returns the copy of read; an empty set is nil.
func (k *interner) labels(read map[string]string) record.Labels {
	if len(read) == 0 {
		return nil
	}
	key := summary.KeyOf(read, "", "", "")
	have, known := k.sets[key]
	if !known {
		have = read
		k.sets[key] = have
		for name, value := range read {
			k.left -= 2*(len(name)+len(value)) + 128
		}
	}
	return have
}
