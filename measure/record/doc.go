// SPDX-License-Identifier: Apache-2.0

// Package record has the JSON documents of a measurement site: those of Measurement Lab's ndt7
// (ndt-server spec/ndt7-protocol.md v0.11.0 and spec/data-format.md v0.3.0) and throughput1 (msak
// 772318a) field by field, and quality1, Weir's own.
//
// A field that Measurement Lab's schema lacks never enters its datatype: its archive rejects the
// row. Such facts belong to quality1 or, as text, to ServerMetadata. Lists may be null in files of
// others.
package record

import (
	"context"
	"time"
)

// Store keeps records durably. It is safe for concurrent use.
type Store interface {
	// Store returns after the record survives a crash of the host. datatype is that of the record,
	// uuid that of the connection, started the start of the test.
	Store(ctx context.Context, datatype, uuid string, started time.Time, record any) error
}

// Admitter is implemented by a [Store] that reserves space before a test starts.
type Admitter interface {
	// Ready returns the reason why the store cannot take another test; nil if it can.
	Ready() error
	// Admit reserves that many bytes for the records of one test. Call release once, after the
	// last Store.
	Admit(bytes int64) (release func(), err error)
}
