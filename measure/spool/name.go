// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// experiments maps each datatype to the experiment that stores it in M-Lab's archive. Datatypes of
// Weir's own belong to the experiment "weir".
var experiments = map[string]string{
	"ndt7": "ndt", "annotation2": "ndt", "scamper2": "ndt", "hopannotation2": "ndt",
	"throughput1": "msak", "latency1": "msak",
}

// Experiment returns the usual experiment of a datatype.
func Experiment(datatype string) string {
	if e, known := experiments[datatype]; known {
		return e
	}
	return "weir"
}

var (
	// plainWord matches experiments and datatypes (jostler's rule).
	plainWord = regexp.MustCompile(`^[a-z][a-z0-9]{0,62}$`)
	// plainName matches file names that jostler accepts, without the extension.
	plainName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9:._-]{0,200}$`)
)

// name is the place of a record below the spool.
type name struct {
	experiment, datatype string
	date                 time.Time
	file                 string
}

func (n name) folder() string {
	return filepath.Join(n.experiment, n.datatype, n.date.Format("2006/01/02"))
}

// summary holds the fields of a record that its file name contains.
type summary struct {
	Direction        string
	Download, Upload *struct{}
	EndTime          time.Time
	Timestamp        time.Time
	CycleStart       struct {
		Start float64 `json:"start_time"`
	}
}

// nameOf returns the place of a record. The date and time are those of its end, as in M-Lab's
// files: a test over midnight belongs to the second day.
func nameOf(datatype, uuid string, started time.Time, text []byte) (name, error) {
	n := name{datatype: datatype}
	if before, after, is := strings.Cut(datatype, "/"); is {
		n.experiment, n.datatype = before, after
	} else {
		n.experiment = Experiment(datatype)
	}
	var s summary
	if len(text) == 0 || text[0] != '{' {
		return n, fmt.Errorf("%w: it is no JSON object", ErrInvalid)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return n, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	n.date = s.time(started).UTC()
	short, long := n.date.Format("20060102T150405Z"), n.date.Format("20060102T150405.000000000Z")
	switch direction := s.direction(); {
	case n.datatype == "annotation2":
		n.file = uuid
	case n.datatype == "scamper2" || n.datatype == "hopannotation2":
		n.file = short + "_" + uuid
	case n.datatype == "latency1":
		n.file = "latency1-application-" + long + "." + uuid
	case direction != "":
		n.file = n.datatype + "-" + direction + "-" + long + "." + uuid
	default:
		n.file = n.datatype + "-" + long + "." + uuid
	}
	switch {
	case !plainWord.MatchString(n.experiment) || !plainWord.MatchString(n.datatype):
		return n, fmt.Errorf("%w: datatype %q has other characters than a-z and 0-9", ErrInvalid, datatype)
	case !plainName.MatchString(uuid) || strings.Contains(uuid, "..") || !plainName.MatchString(n.file):
		return n, fmt.Errorf("%w: UUID %q has other characters than A-Z, a-z, 0-9, ':', '.', '_' and '-', or it is too long", ErrInvalid, uuid)
	case n.date.Year() < 0 || n.date.Year() > 9999:
		return n, fmt.Errorf("%w: the year %d has not four digits", ErrInvalid, n.date.Year())
	}
	n.file += ".json"
	return n, nil
}

// time returns the end of a test, the time of an annotation, or the start of a traceroute.
func (s *summary) time(started time.Time) time.Time {
	switch {
	case !s.EndTime.IsZero():
		return s.EndTime
	case !s.Timestamp.IsZero():
		return s.Timestamp
	case s.CycleStart.Start > 0:
		return time.Unix(int64(s.CycleStart.Start), 0)
	}
	return started
}

// direction returns "download", "upload" or "".
func (s *summary) direction() string {
	switch {
	case s.Direction == "download" || s.Direction == "upload":
		return s.Direction
	case s.Download != nil:
		return "download"
	case s.Upload != nil:
		return "upload"
	}
	return ""
}
