// SPDX-License-Identifier: Apache-2.0

package hist_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"weir/kernel/testutil"
	"weir/record/hist"
)

// The header compiled for the host: reads values, prints their bucket in a full array and in one of
// 1024.
const headerProgram = `
#include <linux/types.h>
#include <stdio.h>
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#include "histogram.h"
int main(void)
{
	unsigned long long v;
	while (scanf("%llu", &v) == 1)
		printf("%u %u\n", hist_index(v, HIST_BUCKETS), hist_index(v, HIST_BUCKETS_FOR(36)));
	return 0;
}`

// The BPF data planes must use the bucket of Index for every value.
func TestHeaderHasTheSameBuckets(t *testing.T) {
	compiler := testutil.Command(t, "cc")
	dir := t.TempDir()
	source, program := filepath.Join(dir, "index.c"), filepath.Join(dir, "index")
	if err := os.WriteFile(source, []byte(headerProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command(compiler, "-O1", "-Wall", "-Werror", "-I", "../../bpf", "-o", program, source)
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("compile bpf/histogram.h: %v\n%s", err, output)
	}
	var input, want bytes.Buffer
	add := func(v uint64) {
		fmt.Fprintln(&input, v)
		fmt.Fprintln(&want, hist.Index(v), min(hist.Index(v), 1023))
	}
	for i := range hist.Buckets {
		low, high := hist.Bounds(i)
		add(low)
		add(high)
	}
	for _, v := range random(t, 20000) {
		add(v)
	}
	run := exec.Command(program)
	run.Stdin = &input
	got, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Fatal("hist_index of bpf/histogram.h and Index differ")
	}
}
