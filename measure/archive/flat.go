// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"strings"
	"time"

	"github.com/parquet-go/jsonlite"
)

// flat has the columns of a test that most questions need, by the definitions of M-Lab's views
// (etl-schema: ndt7, throughput1). A column without a value in a record is null.
type flat struct {
	ID        *string    // UUID of the connection
	TestTime  *time.Time // start of the test
	Direction *string    // download or upload
	Control   *string    // as recorded, never guessed
	Rate      *float64   // Mbit/s of TCP payload, from the last server measurement
	MinRTT    *float64   // of the last server measurement
	LossRate  *float64   // retransmitted of sent bytes; downloads only
	Client    *string    // address, with the port in msak
	Server    *string
	Object    *string // URL of the data object with this record
	Filename  *string // in the spool, as in the data object
	Unfit     *string // members that the schema lacks, or the reason why the record does not fit
}

// flatten reads the columns of a record.
func flatten(datatype string, v *jsonlite.Value) (f flat) {
	if v.Kind() != jsonlite.Object {
		return f
	}
	f.ID, f.Client, f.Server = text(v, "UUID"), text(v, "Client"), text(v, "Server")
	f.TestTime, f.Direction = moment(v, "StartTime"), text(v, "Direction")
	switch datatype {
	case "ndt7":
		f.Client, f.Server = text(v, "ClientIP"), text(v, "ServerIP")
		for _, direction := range []string{"download", "upload"} {
			if data := v.Lookup(strings.ToUpper(direction[:1]) + direction[1:]); data != nil && data.Kind() == jsonlite.Object {
				f.Direction, f.ID, f.TestTime = &direction, text(data, "UUID"), moment(data, "StartTime")
				f.Control = metadata(data, "congestion_control")
				f.measure(data)
			}
		}
	case "throughput1":
		f.Control = text(v, "CCAlgorithm")
		f.measure(v)
	case "scamper2":
		f.ID, f.Client, f.Server = text(v, "Metadata", "UUID"), text(v, "Trace", "dst"), text(v, "Trace", "src")
		if start := number(v, "CycleStart", "start_time"); start != nil {
			at := time.UnixMicro(int64(*start * 1e6)).UTC()
			f.TestTime = &at
		}
	case "annotation2", "hopannotation2":
		f.TestTime = moment(v, "Timestamp")
		if f.ID == nil {
			f.ID = text(v, "ID")
		}
	}
	return f
}

// measure reads the last measurement of the server. f has the direction.
func (f *flat) measure(data *jsonlite.Value) {
	all := data.Lookup("ServerMeasurements")
	if all == nil || all.Kind() != jsonlite.Array || all.Len() == 0 || f.Direction == nil {
		return
	}
	last := all.Index(all.Len() - 1)
	bytes, elapsed := number(last, "TCPInfo", "BytesReceived"), number(last, "TCPInfo", "ElapsedTime")
	if *f.Direction == "download" {
		bytes = number(last, "TCPInfo", "BytesAcked")
		f.LossRate = ratio(number(last, "TCPInfo", "BytesRetrans"), number(last, "TCPInfo", "BytesSent"), 1)
	}
	f.Rate = ratio(bytes, elapsed, 8) // byte/µs
	thousand := 1000.0
	f.MinRTT = ratio(number(last, "TCPInfo", "MinRTT"), &thousand, 1)
}

// ratio returns factor * a / b, or nil if it is undefined.
func ratio(a, b *float64, factor float64) *float64 {
	if a == nil || b == nil || *b <= 0 {
		return nil
	}
	r := factor * *a / *b
	return &r
}

// lookup returns a member of the members of objects, or nil.
func lookup(v *jsonlite.Value, path []string) *jsonlite.Value {
	for _, key := range path {
		if v == nil || v.Kind() != jsonlite.Object {
			return nil
		}
		v = v.Lookup(key)
	}
	return v
}

func text(v *jsonlite.Value, path ...string) *string {
	if v = lookup(v, path); v == nil || v.Kind() != jsonlite.String {
		return nil
	}
	s := v.String()
	return &s
}

func number(v *jsonlite.Value, path ...string) *float64 {
	if v = lookup(v, path); v == nil || v.Kind() != jsonlite.Number {
		return nil
	}
	n, err := v.Number().Float64()
	if err != nil {
		return nil
	}
	return &n
}

func moment(v *jsonlite.Value, path ...string) *time.Time {
	s := text(v, path...)
	if s == nil {
		return nil
	}
	t, err := time.Parse(time.RFC3339, *s)
	if err != nil {
		return nil
	}
	t = t.UTC()
	return &t
}

// metadata returns the value of a name in ServerMetadata.
func metadata(data *jsonlite.Value, name string) *string {
	all := data.Lookup("ServerMetadata")
	if all == nil || all.Kind() != jsonlite.Array {
		return nil
	}
	for entry := range all.Array {
		if n := text(entry, "Name"); n != nil && *n == name {
			return text(entry, "Value")
		}
	}
	return nil
}
