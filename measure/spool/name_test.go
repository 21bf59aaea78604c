// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// The names are those of M-Lab's own files (ndt-server, msak, traceroute-caller, uuid-annotator).
func TestFilesHaveTheNamesOfMLab(t *testing.T) {
	for _, test := range []struct{ datatype, uuid, text, want string }{
		{"ndt7", "ndt-knwp4_1583603744_000000000000590E", `{"StartTime":"2020-03-18T00:06:46Z","EndTime":"2020-03-18T00:06:57.568382877Z","Download":{"UUID":"x"}}`,
			"ndt/ndt7/2020/03/18/ndt7-download-20200318T000657.568382877Z.ndt-knwp4_1583603744_000000000000590E.json"},
		{"ndt7", "h_1_A", `{"EndTime":"2020-03-18T00:13:52.496224022Z","Upload":{}}`, "ndt/ndt7/2020/03/18/ndt7-upload-20200318T001352.496224022Z.h_1_A.json"},
		{"throughput1", "h_1_A", `{"Direction":"upload","EndTime":"2024-01-02T03:04:05Z"}`, "msak/throughput1/2024/01/02/throughput1-upload-20240102T030405.000000000Z.h_1_A.json"},
		{"latency1", "mid", `{"EndTime":"2024-01-02T03:04:05Z"}`, "msak/latency1/2024/01/02/latency1-application-20240102T030405.000000000Z.mid.json"},
		{"annotation2", "h_1_A", `{"Timestamp":"2024-01-02T03:04:05Z"}`, "ndt/annotation2/2024/01/02/h_1_A.json"},
		{"msak/annotation2", "h_1_A", `{"Timestamp":"2024-01-02T03:04:05Z"}`, "msak/annotation2/2024/01/02/h_1_A.json"},
		{"scamper2", "h_1_A", `{"CycleStart":{"start_time":1629308672}}`, "ndt/scamper2/2021/08/18/20210818T174432Z_h_1_A.json"},
		{"hopannotation2", "host_2001:db8::1", `{"Timestamp":"2024-01-02T03:04:05Z"}`, "ndt/hopannotation2/2024/01/02/20240102T030405Z_host_2001:db8::1.json"},
		{"quality1", "h_1_A", `{}`, "weir/quality1/2026/11/26/quality1-20261126T120000.123456789Z.h_1_A.json"},
	} {
		n, err := nameOf(test.datatype, test.uuid, noon, []byte(test.text))
		if got := filepath.Join(n.folder(), n.file); err != nil || got != test.want {
			t.Errorf("%s (%v), want %s", got, err, test.want)
		}
	}
}

func FuzzNameOf(f *testing.F) {
	f.Add("ndt7", "h_1_A", []byte(`{"EndTime":"2020-03-18T00:13:52.496224022Z","Upload":{}}`))
	f.Add("msak/scamper2", "a..b", []byte(`{"CycleStart":{"start_time":1e300}}`))
	f.Fuzz(func(t *testing.T, datatype, uuid string, text []byte) {
		n, err := nameOf(datatype, uuid, noon, text)
		if err != nil {
			return
		}
		path := filepath.Join(n.folder(), n.file)
		if !filepath.IsLocal(path) || strings.Count(path, "/") != 5 || len(n.file) > 240 || strings.Contains(path, "/.") || !json.Valid(text) {
			t.Errorf("%q", path)
		}
	})
}
