// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
)

// The members of ndt7 that the test reads back; those of others are ignored.
type (
	measured struct {
		AppInfo *struct {
			NumBytes *int64 `parquet:"NumBytes"`
		} `parquet:"AppInfo" json:",omitempty"`
		TCPInfo *struct {
			MinRTT      *int64 `parquet:"MinRTT"`
			BytesAcked  *int64 `parquet:"BytesAcked" json:",omitempty"`
			ElapsedTime *int64 `parquet:"ElapsedTime"`
		} `parquet:"TCPInfo" json:",omitempty"`
	}
	direction struct {
		UUID               *string    `parquet:"UUID"`
		ServerMeasurements []measured `parquet:"ServerMeasurements"`
		ClientMeasurements []measured `parquet:"ClientMeasurements"`
		ServerMetadata     []struct {
			Name  *string `parquet:"Name"`
			Value *string `parquet:"Value"`
		} `parquet:"ServerMetadata" json:",omitempty"`
	}
	ndt7 struct {
		ClientIP *string    `parquet:"ClientIP"`
		Upload   *direction `parquet:"Upload" json:",omitempty"`
		Download *direction `parquet:"Download" json:",omitempty"`
	}
	readRow struct {
		ID        *string    `parquet:"id"`
		TestTime  *time.Time `parquet:"test_time,timestamp(microsecond)"`
		Direction *string    `parquet:"direction"`
		Control   *string    `parquet:"congestion_control"`
		Rate      *float64   `parquet:"mean_throughput_mbps"`
		MinRTT    *float64   `parquet:"min_rtt_ms"`
		LossRate  *float64   `parquet:"loss_rate"`
		Client    *string    `parquet:"client"`
		Unfit     *string    `parquet:"unfit"`
		Raw       *ndt7      `parquet:"raw"`
	}
)

// rowsOf writes records as Parquet and reads them.
func rowsOf(t testing.TB, datatype string, texts ...string) []readRow {
	t.Helper()
	content := written(t, datatype, texts...)
	rows, err := parquet.Read[readRow](bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func written(t testing.TB, datatype string, texts ...string) []byte {
	t.Helper()
	p := &plan{Folder: folder{"ndt", datatype, "2026/11/26"}, Archive: "file:///a"}
	var records [][]byte
	for _, text := range texts {
		p.Files = append(p.Files, "a.json")
		records = append(records, []byte(text))
	}
	content, err := newBundle(p, records).parquet()
	if err != nil {
		t.Fatal(err)
	}
	return content
}

var records = []string{
	`{"ClientIP":"192.0.2.1","ServerIP":"198.51.100.1","Download":{"UUID":"h_1_A","StartTime":"2026-11-26T12:00:00.1234567Z","ServerMeasurements":[` +
		`{"TCPInfo":{"MinRTT":9000,"BytesAcked":10,"ElapsedTime":100}},{},{"AppInfo":{"NumBytes":7},"TCPInfo":{"MinRTT":8500,"BytesAcked":125000000,"BytesSent":200,"BytesRetrans":3,"ElapsedTime":10000000}}],` +
		`"ClientMeasurements":null,"ServerMetadata":[{"Name":"org","Value":"example"},{"Name":"congestion_control","Value":"bbr"}]}}`,
	`{"ClientIP":"192.0.2.2","Upload":{"UUID":"h_1_B","ServerMeasurements":[{"TCPInfo":{"MinRTT":0,"BytesReceived":1000,"ElapsedTime":8000}}],"ClientMeasurements":[{"AppInfo":{"NumBytes":1}},{"AppInfo":null}]}}`,
	`{"ClientIP":"192.0.2.3","Download":{"UUID":"h_1_C","ServerMeasurements":[],"ClientMeasurements":[]}}`,
	`{"ClientIP":null}`,
}

func TestParquetRowsHaveTheColumnsOfTheViews(t *testing.T) {
	text := func(s string) *string { return &s }
	number := func(x float64) *float64 { return &x }
	start := time.Date(2026, 11, 26, 12, 0, 0, 123456000, time.UTC)
	want := []readRow{
		{ID: text("h_1_A"), TestTime: &start, Direction: text("download"), Control: text("bbr"), Rate: number(100), MinRTT: number(8.5), LossRate: number(0.015), Client: text("192.0.2.1")},
		{ID: text("h_1_B"), Direction: text("upload"), Rate: number(1), MinRTT: number(0), Client: text("192.0.2.2")},
		{ID: text("h_1_C"), Direction: text("download"), Client: text("192.0.2.3")},
		{},
	}
	got := rowsOf(t, "ndt7", records...)
	for i, record := range records {
		want[i].Raw = &ndt7{}
		if err := json.Unmarshal([]byte(record), want[i].Raw); err != nil {
			t.Fatal(err)
		}
	}
	for i := range got {
		if diff := cmp.Diff(normal(t, want[i]), normal(t, got[i])); diff != "" {
			t.Errorf("record %d: want -, got +\n%s", i, diff)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
}

// normal is a row as JSON, in which empty lists are null.
func normal(t *testing.T, row readRow) string {
	t.Helper()
	text, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "[]", "null")
}

func TestRecordsThatDoNotFitKeepTheirColumns(t *testing.T) {
	for _, test := range []struct{ what, record, reason string }{
		{"a new member", `{"ClientIP":"a","Download":{"UUID":"u","New":1}}`, `Download has the unknown member "New"`},
		{"a new top member", `{"ClientIP":"a","New":[{}],"Download":{"UUID":"u"}}`, `the record has the unknown member "New"`},
		{"text for a number", `{"ClientIP":"a","ServerPort":"443","Download":{"UUID":"u"}}`, "ServerPort is no INTEGER: it has another JSON type"},
		{"a fraction", `{"ClientIP":"a","ServerPort":1.5,"Download":{"UUID":"u"}}`, "ServerPort is no INTEGER"},
		{"a wrong time", `{"ClientIP":"a","StartTime":"noon","Download":{"UUID":"u"}}`, "StartTime is no TIMESTAMP"},
		{"an object for a list", `{"ClientIP":"a","Download":{"UUID":"u","ServerMeasurements":{}}}`, "Download.ServerMeasurements is no list"},
		{"null in a list", `{"ClientIP":"a","Download":{"UUID":"u","ServerMeasurements":[null]}}`, "Download.ServerMeasurements is no object"},
		{"a member twice", `{"ClientIP":"a","ClientIP":"a","Download":{"UUID":"u"}}`, `the record has the member "ClientIP" twice`},
	} {
		err := Fit("ndt7", []byte(test.record))
		if err == nil || !strings.Contains(err.Error(), test.reason) {
			t.Errorf("%s: error %v, want %q", test.what, err, test.reason)
		}
		rows := rowsOf(t, "ndt7", test.record)
		if len(rows) != 1 || rows[0].Unfit == nil || *rows[0].Unfit != err.Error() || *rows[0].ID != "u" || *rows[0].Client != "a" {
			t.Errorf("%s: %+v", test.what, rows)
		}
		if kept := strings.Contains(test.reason, "unknown"); kept != (rows[0].Raw != nil) {
			t.Errorf("%s: raw %+v", test.what, rows[0].Raw)
		}
	}
	if err := Fit("quality1", []byte("[1]")); err != nil {
		t.Errorf("a datatype without a schema: %v", err)
	}
}

func TestADatatypeWithoutASchemaHasItsRecordAsText(t *testing.T) {
	content := written(t, "quality1", `{"UUID":"u","Grade":["a",1.50]}`)
	rows, err := parquet.Read[struct {
		ID  *string `parquet:"id"`
		Raw string  `parquet:"raw,json"`
	}](bytes.NewReader(content), int64(len(content)))
	if err != nil || len(rows) != 1 || *rows[0].ID != "u" || !strings.Contains(rows[0].Raw, `1.50`) {
		t.Errorf("%+v (%v)", rows, err)
	}
}

func TestSchemasAreOfMLabsDatatypes(t *testing.T) {
	for _, datatype := range []string{"ndt7", "annotation2", "scamper2", "hopannotation2", "throughput1", "latency1"} {
		if len(schemas()[datatype]) == 0 {
			t.Errorf("%s has no schema", datatype)
		}
	}
}

func FuzzParquet(f *testing.F) {
	for _, record := range records {
		f.Add("ndt7", []byte(record))
	}
	f.Add("scamper2", []byte(`{"Metadata":{"UUID":"u"},"CycleStart":{"start_time":1e300},"Trace":{"dst":"192.0.2.1","hops":[{"addr":"a","rtt":1.5}]}}`))
	f.Add("annotation2", []byte(`{"UUID":"u","Timestamp":"2026-11-26T12:00:00Z","Client":{"Network":{"Systems":[{"ASNs":[1,2]},{"ASNs":null}]}}}`))
	f.Add("throughput1", []byte(`{"Direction":"upload","ServerMeasurements":[{"TCPInfo":{"BytesReceived":1,"ElapsedTime":0}}]}`))
	f.Fuzz(func(t *testing.T, datatype string, text []byte) {
		line, reason := oneLine(text)
		if reason != "" || len(datatype) > 20 {
			return
		}
		content := written(t, datatype, string(line), string(line))
		file, err := parquet.OpenFile(bytes.NewReader(content), int64(len(content)))
		if err != nil || file.NumRows() != 2 {
			t.Fatalf("%v in %s", err, line)
		}
		if _, known := schemas()[datatype]; !known || datatype != "ndt7" {
			return
		}
		rows, err := parquet.Read[readRow](bytes.NewReader(content), int64(len(content)))
		if err != nil || len(rows) != 2 || normal(t, rows[0]) != normal(t, rows[1]) {
			t.Errorf("%v: %v from %s", err, rows, line)
		}
	})
}

func TestADeepRecordIsArchived(t *testing.T) {
	deep := `{"UUID":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`
	if _, reason := oneLine([]byte(deep)); reason != "" {
		t.Fatal(reason)
	}
	for _, datatype := range []string{"ndt7", "quality1"} {
		if content := written(t, datatype, deep); len(content) == 0 {
			t.Errorf("%s: no row", datatype)
		}
	}
}
