// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"slices"
	"strings"

	"weir/lab/run"
	"weir/record"
)

// traceFolder is the folder of packet traces among a bundle's attachments.
const traceFolder = "captures"

// traces returns the packet traces of all runs.
func traces(outcome *run.Outcome) (all []record.Attachment) {
	for i := range outcome.Results {
		r := &outcome.Results[i]
		for _, trace := range r.Traces {
			all = append(all, record.Attachment{Name: attachmentName(r, traceFolder, ".pcapng", trace.Link), Path: trace.Path})
		}
	}
	return all
}

// attachmentName returns a file name that identifies the run.
func attachmentName(r *run.Result, folder, ending string, words ...string) string {
	var parts []string
	if len(r.Cell.Labels) > 0 {
		parts = append(parts, run.CellName(r.Cell))
	}
	parts = append(append(parts, fmt.Sprintf("run %d.%d", r.Repetition, r.Attempt)), words...)
	safe := strings.Map(func(c rune) rune {
		if c < 128 && (c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || slices.Contains([]rune{'.', '=', '-', '_'}, c)) {
			return c
		}
		return '-'
	}, strings.Join(parts, "_"))
	return folder + "/" + safe + ending
}
