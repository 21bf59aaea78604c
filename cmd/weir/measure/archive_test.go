// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cmd/weir/clitest"
	"weir/internal/fault"
	"weir/measure/spool"
)

var commands = clitest.Group{Command}

// spoolOf returns a spool with a record and an invalid file.
func spoolOf(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s, err := spool.Open(dir, spool.Options{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	if err := s.Store(t.Context(), "ndt7", "host_1_A", at, json.RawMessage(`{"Download":{"UUID":"host_1_A"}}`)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ndt/ndt7/2026/11/26/bad.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestArchiveMovesRecordsAndReports(t *testing.T) {
	dir, to := spoolOf(t), t.TempDir()
	status, stdout, stderr := commands.Call(t, "measure", "archive", "--spool", dir, "--archive", to)
	if status != fault.OK || !strings.Contains(stdout, "records waiting              2") {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
	status, stdout, stderr = commands.Call(t, "measure", "archive", "--spool", dir, "--archive", to, "--now", "--node", "mlab1-lga01", "--organization", "example", "--format", "json")
	var got archived
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != fault.OK {
		t.Fatalf("status %d, %v\n%s%s", status, err, stdout, stderr)
	}
	if got.Format != "weir-measure-archive/1" || got.Bundles != 1 || got.Records != 1 || got.Bytes == 0 || got.Waiting != 0 || len(got.Aside) != 1 || got.Aside[0].Reason != "it is not one JSON object" {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(stderr, "bad.json is no valid record") {
		t.Errorf("messages: %s", stderr)
	}
	found, err := filepath.Glob(to + "/autoload/v2/example/ndt/ndt7/2026/11/26/*-ndt7-mlab1-lga01-ndt-data.jsonl.gz")
	if err != nil || len(found) != 1 {
		t.Errorf("%v, %v", found, err)
	}
}

func TestArchiveNamesTheWayOut(t *testing.T) {
	dir := spoolOf(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	for _, test := range []struct {
		name   string
		args   []string
		status fault.Status
		want   []string
	}{
		{"no archive", []string{"--spool", dir}, fault.Usage, []string{"--archive is missing", "add --archive"}},
		{"no spool", []string{"--spool", dir + "/none", "--archive", dir + "/a"}, fault.Usage, []string{"no such file", "--spool"}},
		{"a wrong scheme", []string{"--spool", dir, "--archive", "ftp://a/b"}, fault.Usage, []string{`unknown scheme "ftp"`, "s3://BUCKET"}},
		{"a wrong organization", []string{"--spool", dir, "--archive", dir + "/a", "--organization", "My Lab"}, fault.Usage, []string{`organization "My Lab"`, "a-z and 0-9"}},
		{"a wrong node", []string{"--spool", dir, "--archive", dir + "/a", "--node", "a/b"}, fault.Usage, []string{`node "a/b"`, "mlab1-lga01"}},
		{"a wrong age", []string{"--spool", dir, "--archive", dir + "/a", "--bundle-age", "-1h"}, fault.Usage, []string{"--bundle-age -1h", "--bundle-age 1h"}},
		{"a dead archive", []string{"--spool", dir, "--archive", "s3://abc?endpoint=http://127.0.0.1:1"}, fault.Failed, []string{"refused", "reachable"}},
		{"a file as archive", []string{"--spool", dir, "--archive", "/dev/null"}, fault.Failed, []string{"not a directory", "name a folder"}},
	} {
		status, stdout, stderr := commands.Call(t, append([]string{"measure", "archive", "--now"}, test.args...)...)
		if status != test.status || stdout != "" {
			t.Errorf("%s: status %d, want %d\n%s%s", test.name, status, test.status, stdout, stderr)
		}
		for _, want := range test.want {
			if !strings.Contains(stderr, want) {
				t.Errorf("%s: %q is not in\n%s", test.name, want, stderr)
			}
		}
	}
}
