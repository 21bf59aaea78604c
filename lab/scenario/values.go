// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/fault"
	"weir/internal/nearest"
	"weir/internal/units"
	"weir/lab/link"
)

// share is a probability that must be written with care: "1%" or a number from 0 to 1.
type share float64

func (s *share) UnmarshalText(text []byte) error {
	return (*units.Probability)(s).UnmarshalText(text)
}

func (share) ShortForm() string { return units.Probability(0).ShortForm() }

// value returns the share, or the default where it was left out.
func (s *share) value(otherwise float64) float64 {
	if s == nil {
		return otherwise
	}
	return float64(*s)
}

// wordList is one word or a list of them.
type wordList []string

func (w *wordList) UnmarshalText(text []byte) error {
	*w = wordList{string(text)}
	return nil
}

func (*wordList) ShortForm() string { return "one value" }

func (n *nodeFile) UnmarshalText(text []byte) error {
	n.Name = string(text)
	return nil
}

func (*nodeFile) ShortForm() string { return "the node's name" }

func (j *jitterFile) UnmarshalText(text []byte) error { return j.Deviation.UnmarshalText(text) }

func (*jitterFile) ShortForm() string { return `uniform jitter, such as "1ms"` }

// UnmarshalText reads the short forms of a queue: a size, a number of packets or of BDPs, or the
// discipline that manages it.
func (q *queueFile) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	if number, found := cutUnit(s, "packets", "packet"); found {
		n, err := strconv.Atoi(number)
		if err != nil {
			return fmt.Errorf("queue %q is not a whole number of packets", s)
		}
		q.Packets = &n
		return nil
	}
	if number, found := cutUnit(s, "bdp", "BDP"); found {
		v, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return fmt.Errorf("queue %q is not a number of bandwidth-delay products", s)
		}
		q.BDP = &v
		return nil
	}
	if slices.Contains(link.Disciplines(), link.Discipline(s)) {
		q.Discipline = s
		return nil
	}
	q.Bytes = new(units.ByteSize)
	return q.Bytes.UnmarshalText(text)
}

func (*queueFile) ShortForm() string {
	return `a length, such as "64KiB", "100 packets" or "1 bdp", or a discipline, such as "codel"`
}

func cutUnit(s string, names ...string) (number string, found bool) {
	for _, unit := range names {
		if number, found = strings.CutSuffix(s, unit); found {
			return strings.TrimSpace(number), true
		}
	}
	return "", false
}

// threshold is an amount of waiting data: octets, or the time they take at the link's rate.
type threshold struct {
	bytes units.ByteSize
	time  time.Duration
}

func (t *threshold) UnmarshalText(text []byte) error {
	if d, err := units.ParseDuration(string(text)); err == nil && strings.Trim(string(text), "0123456789. ") != "" {
		t.time = d
		return nil
	}
	if err := t.bytes.UnmarshalText(text); err != nil {
		return fmt.Errorf("ECN threshold %q is neither a size such as \"64KiB\" nor a time such as \"1ms\"", text)
	}
	return nil
}

func (*threshold) ShortForm() string { return `a size such as "64KiB" or a time such as "1ms"` }

// dscp is a DiffServ code point, by number or by name.
type dscp uint8

// codePoints are the names of RFC 2474, 2597, 3246, 5865 and 8622.
func codePoints() (names []string, value map[string]uint8) {
	value = map[string]uint8{"be": 0, "df": 0, "le": 1, "ef": 46, "va": 44}
	names = []string{"be", "df", "le", "ef", "va"}
	for class := range uint8(8) {
		names = append(names, fmt.Sprintf("cs%d", class))
		value[names[len(names)-1]] = class << 3
	}
	for class := uint8(1); class <= 4; class++ {
		for drop := uint8(1); drop <= 3; drop++ {
			names = append(names, fmt.Sprintf("af%d%d", class, drop))
			value[names[len(names)-1]] = class<<3 | drop<<1
		}
	}
	return names, value
}

func (d *dscp) UnmarshalText(text []byte) error {
	s := strings.ToLower(strings.TrimSpace(string(text)))
	if n, err := strconv.Atoi(s); err == nil {
		if n < 0 || n > 63 {
			return fault.New(fault.Usage, tryRange(0, 63), "DSCP %d is outside 0 to 63", n)
		}
		*d = dscp(n)
		return nil
	}
	names, value := codePoints()
	n, known := value[s]
	if !known {
		return fmt.Errorf("DSCP %q is neither a number from 0 to 63 nor a name such as \"ef\" or \"af11\"%s", text, nearest.Hint(s, names))
	}
	*d = dscp(n)
	return nil
}

func (*dscp) ShortForm() string { return `0-63, or a name such as "ef", "cs1", "af11", "le"` }
