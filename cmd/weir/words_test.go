// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
)

// With --format json an error is the one document on standard output, and a result is never
// followed by a second one.
func TestAnErrorIsAJSONDocument(t *testing.T) {
	status, stdout, stderr := call(t, "plan", "/nowhere.yaml", "--format", "json")
	var got cli.ErrorDocument
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatalf("%v: %q", err, stdout)
	}
	if got.Format != "weir-error/1" || got.Status != int(status) || status != fault.Usage || got.Try == "" || !strings.Contains(got.Error, "/nowhere.yaml") {
		t.Errorf("status %d, %+v", status, got)
	}
	if !strings.Contains(stderr, got.Error) {
		t.Errorf("standard error says %q", stderr)
	}
	var out strings.Builder
	a := &cli.App{Stdout: &out, Stderr: &strings.Builder{}, Format: "json"}
	if err := a.JSON(1); err != nil {
		t.Fatal(err)
	}
	a.Report(fault.New(fault.Failed, "", "too late"))
	if out.String() != "1\n" {
		t.Errorf("after a result: %q", out.String())
	}
}

// The sweep of labs advises it.
func TestLabListUp(t *testing.T) {
	list, _, err := newRoot(&cli.App{}).Find([]string{"lab", "list"})
	if err != nil || list.Flags().Lookup("up") == nil {
		t.Errorf("weir lab list has no --up: %v", err)
	}
}
