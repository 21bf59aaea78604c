// SPDX-License-Identifier: Apache-2.0

package msak

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"weir/measure/record"
)

const (
	maxQuery = 4096
	maxID    = 128 // bytes of a measurement ID
	maxName  = 50  // bytes of a name of metadata
	maxValue = 512 // bytes of a value
)

// CongestionControls are those that a client may request.
var CongestionControls = []string{"bbr", "cubic", "reno"}

// Options are a client's request.
type Options struct {
	MeasurementID string
	Streams       int
	Duration      time.Duration
	Congestion    string // "" for the server's default
	Bytes         uint64 // payload after which a stream ends; 0 for none
	Requested     []record.NameValue
	Metadata      []record.NameValue
}

// ParseOptions parses the query string of an upgrade request. id is the measurement ID of an access
// token, which replaces the client's; "" without one. The error is a reason for people.
func ParseOptions(raw, id string) (o Options, err error) {
	if len(raw) > maxQuery {
		return o, fmt.Errorf("it has %d bytes, more than %d", len(raw), maxQuery)
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return o, err
	}
	o.Duration = DefaultDuration
	if o.MeasurementID, err = ParseID(cmp.Or(id, values.Get("mid"))); err != nil {
		return o, err
	}
	if !values.Has("streams") {
		return o, fmt.Errorf("streams is missing, as in streams=2")
	}
	// The order is that of Measurement Lab's records.
	for _, option := range []struct {
		name  string
		parse func(string) error
	}{{"streams", o.parseStreams}, {"duration", o.parseDuration}, {"cc", o.parseCongestion}, {"delay", parseDelay}, {"bytes", o.parseBytes}} {
		value := values.Get(option.name)
		if value == "" && option.name != "streams" {
			continue
		}
		if err := option.parse(value); err != nil {
			return o, err
		}
		o.Requested = append(o.Requested, record.NameValue{Name: option.name, Value: value})
	}
	o.Metadata, err = metadata(values)
	return o, err
}

// ParseID checks a measurement ID.
func ParseID(id string) (string, error) {
	switch {
	case id == "":
		return "", fmt.Errorf("the measurement ID is missing, as in mid=a1b2c3")
	case len(id) > maxID:
		return "", fmt.Errorf("mid has %d bytes, more than %d", len(id), maxID)
	case !utf8.ValidString(id) || strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", fmt.Errorf("mid has control characters or is not UTF-8")
	}
	return id, nil
}

func (o *Options) parseStreams(value string) (err error) {
	o.Streams, err = strconv.Atoi(value)
	if err != nil || o.Streams < 1 || o.Streams > MaxStreams {
		return fmt.Errorf("streams=%s is no number from 1 to %d", strconv.Quote(value), MaxStreams)
	}
	return nil
}

func (o *Options) parseDuration(value string) error {
	ms, err := strconv.ParseUint(value, 10, 31)
	if err != nil || ms == 0 {
		return fmt.Errorf("duration=%s is no number of milliseconds from 1 on", strconv.Quote(value))
	}
	o.Duration = min(time.Duration(ms)*time.Millisecond, LongestDuration)
	return nil
}

func (o *Options) parseCongestion(value string) error {
	if !slices.Contains(CongestionControls, value) {
		return fmt.Errorf("cc=%s is not bbr, cubic or reno", strconv.Quote(value))
	}
	o.Congestion = value
	return nil
}

// parseDelay checks the pause between the starts of a client's streams in ms. It is recorded only.
func parseDelay(value string) error {
	if _, err := strconv.ParseUint(value, 10, 31); err != nil {
		return fmt.Errorf("delay=%s is no number of milliseconds", strconv.Quote(value))
	}
	return nil
}

func (o *Options) parseBytes(value string) (err error) {
	// Zero has no effect, as in Measurement Lab's server.
	if o.Bytes, err = strconv.ParseUint(value, 10, 63); err != nil {
		return fmt.Errorf("bytes=%s is no number of bytes", strconv.Quote(value))
	}
	return nil
}

// metadata returns the members of a query that are no options, in the order of their names.
func metadata(values url.Values) (all []record.NameValue, err error) {
	for name, list := range values {
		switch name {
		case "streams", "duration", "delay", "cc", "bytes", "mid", "access_token":
			continue
		}
		if len(name) > maxName || len(list[0]) > maxValue {
			return nil, fmt.Errorf("a name has more than %d bytes, or its value more than %d", maxName, maxValue)
		}
		all = append(all, record.NameValue{Name: strings.ToValidUTF8(name, "�"), Value: strings.ToValidUTF8(list[0], "�")})
	}
	slices.SortFunc(all, func(a, b record.NameValue) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}
