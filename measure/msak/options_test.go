// SPDX-License-Identifier: Apache-2.0

package msak

import (
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"weir/measure/record"
)

func TestOptionsOfARequest(t *testing.T) {
	o, err := ParseOptions("client_os=linux&mid=a&bytes=1000&streams=2&duration=30000&cc=cubic&delay=10&access_token=secret&client_name=x&client_name=y", "")
	want := Options{
		MeasurementID: "a", Streams: 2, Duration: 25 * time.Second, Congestion: "cubic", Bytes: 1000,
		Requested: []record.NameValue{{Name: "streams", Value: "2"}, {Name: "duration", Value: "30000"}, {Name: "cc", Value: "cubic"}, {Name: "delay", Value: "10"}, {Name: "bytes", Value: "1000"}},
		Metadata:  []record.NameValue{{Name: "client_name", Value: "x"}, {Name: "client_os", Value: "linux"}},
	}
	if err != nil || !reflect.DeepEqual(o, want) {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := ParseOptions("mid=a&streams=1", "token's"); err != nil || o.MeasurementID != "token's" {
		t.Errorf("the ID of a token: %+v, %v", o, err)
	}
	if o, err := ParseOptions("mid=a&streams=1", ""); err != nil || o.Duration != DefaultDuration || o.Congestion != "" || o.Bytes != 0 {
		t.Errorf("defaults: %+v, %v", o, err)
	}
}

func TestWrongRequestsNameTheReason(t *testing.T) {
	for query, reason := range map[string]string{
		"streams=1":                                         "mid=",
		"mid=a":                                             "streams=",
		"mid=a&streams=0":                                   `streams="0"`,
		"mid=a&streams=65":                                  "1 to 64",
		"mid=a&streams=two":                                 `streams="two"`,
		"mid=a&streams=1&duration=-1":                       `duration="-1"`,
		"mid=a&streams=1&duration=0":                        `duration="0"`,
		"mid=a&streams=1&duration=5s":                       `duration="5s"`,
		"mid=a&streams=1&duration=9999999999999":            "milliseconds",
		"mid=a&streams=1&cc=vegas":                          `cc="vegas"`,
		"mid=a&streams=1&cc=bbr%00":                         "cc=",
		"mid=a&streams=1&bytes=-5":                          `bytes="-5"`,
		"mid=a&streams=1&bytes=99999999999999999999":        "bytes=",
		"mid=a&streams=1&delay=x":                           `delay="x"`,
		"mid=a%0ab&streams=1":                               "control characters",
		"mid=%ff&streams=1":                                 "UTF-8",
		"mid=" + strings.Repeat("m", 129) + "&streams=1":    "129 bytes",
		"mid=a&streams=1&" + strings.Repeat("n", 51) + "=1": "50 bytes",
		"mid=a&streams=1&name=" + strings.Repeat("v", 513):  "512",
		"mid=a&streams=1&name=" + strings.Repeat("v", 4096): "4096",
		"mid=a&streams=1&x=%zz":                             "%zz",
	} {
		if _, err := ParseOptions(query, ""); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%.60s: %v, want %q", query, err, reason)
		}
	}
}

func TestAQueryIsParsedAgain(t *testing.T) {
	want := Options{MeasurementID: "a&b=c", Streams: 3, Duration: 7 * time.Second, Congestion: "bbr", Bytes: 5, Metadata: []record.NameValue{{Name: "client_name", Value: "ü"}}}
	got, err := ParseOptions(want.Query(), "")
	got.Requested = nil
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzOptions(f *testing.F) {
	f.Add("mid=a&streams=2&duration=5000&cc=bbr&bytes=10&delay=1&client_name=x")
	f.Add("mid=%00&streams=1")
	f.Fuzz(func(t *testing.T, query string) {
		o, err := ParseOptions(query, "")
		if err != nil {
			return
		}
		if o.MeasurementID == "" || len(o.MeasurementID) > maxID || o.Streams < 1 || o.Streams > MaxStreams || o.Duration <= 0 || o.Duration > LongestDuration {
			t.Fatalf("%q: %+v", query, o)
		}
		for _, m := range append(o.Metadata, o.Requested...) {
			if !utf8.ValidString(m.Name) || !utf8.ValidString(m.Value) || len(query) > maxQuery {
				t.Fatalf("%q: %+v", query, m)
			}
		}
		o.Requested, o.Metadata = nil, nil
		again, err := ParseOptions(o.Query(), "")
		again.Requested = nil
		if err != nil || !reflect.DeepEqual(o, again) {
			t.Fatalf("%q: %+v, again %+v, %v", query, o, again, err)
		}
	})
}
