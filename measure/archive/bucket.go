// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"weir/internal/fault"
)

// bucket keeps objects in S3 or a service with its protocol.
type bucket struct {
	client *minio.Client
	scheme string
	name   string
	prefix string
}

// requestTimeout ends a request to an archive that does not answer. 20 MiB in 5 min are 0.6 Mbit/s.
const requestTimeout = 5 * time.Minute

// newBucket reads s3://BUCKET/PREFIX?endpoint=URL&region=REGION and gs://BUCKET/PREFIX.
func newBucket(u *url.URL) (*bucket, error) {
	query := u.Query()
	for key := range query {
		if key != "endpoint" && key != "region" {
			return nil, fault.New(fault.Usage, "write endpoint or region", "archive %q has the unknown option %q", u.Redacted(), key)
		}
	}
	endpoint, region := "https://s3.amazonaws.com", query.Get("region")
	if u.Scheme == "gs" {
		endpoint = "https://storage.googleapis.com"
	}
	if e := query.Get("endpoint"); e != "" {
		endpoint = e
	}
	if region == "" {
		region = "us-east-1"
	}
	at, err := url.Parse(endpoint)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" || strings.Trim(at.Path, "/") != "" {
		return nil, fault.New(fault.Usage, "write a URL without a path, as in endpoint=https://s3.example.net", "archive %q has the endpoint %q", u.Redacted(), endpoint)
	}
	if u.Host == "" || u.User != nil {
		return nil, fault.New(fault.Usage, urlAdvice+"; keys belong into the environment", "archive %q names no bucket, or a user", u.Redacted())
	}
	if err := s3utils.CheckValidBucketName(u.Host); err != nil {
		return nil, fault.New(fault.Usage, urlAdvice, "archive %q: %w", u.Redacted(), err)
	}
	chain := credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.EnvMinio{}, &credentials.FileAWSCredentials{}})
	transport, err := minio.DefaultTransport(at.Scheme == "https")
	if err != nil {
		return nil, fmt.Errorf("open archive: %w", err)
	}
	client, err := minio.New(at.Host, &minio.Options{Creds: chain, Secure: at.Scheme == "https", Region: region, Transport: transport, MaxRetries: 1})
	if err != nil {
		return nil, fault.New(fault.Usage, urlAdvice, "archive %q: %w", u.Redacted(), err)
	}
	return &bucket{client: client, scheme: u.Scheme, name: u.Host, prefix: strings.Trim(u.Path, "/")}, nil
}

func (b *bucket) key(key string) string { return path.Join(b.prefix, key) }

func (b *bucket) URL(key string) string { return b.scheme + "://" + b.name + "/" + b.key(key) }

// Create uploads in one request, which the service carries out as a whole. If the service lacks
// If-None-Match (501), Create reads the object's state first; there, two archives of one node could
// overwrite each other's bundle of the same microsecond.
func (b *bucket) Create(ctx context.Context, key string, content []byte) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := b.put(ctx, key, content, b.scheme == "s3")
	if minio.ToErrorResponse(err).StatusCode == http.StatusNotImplemented {
		err = b.put(ctx, key, content, false)
	}
	if minio.ToErrorResponse(err).StatusCode == http.StatusPreconditionFailed {
		return fmt.Errorf("store %s: %w", b.URL(key), os.ErrExist)
	}
	return b.explain(err, "store "+b.URL(key))
}

func (b *bucket) put(ctx context.Context, key string, content []byte, conditional bool) error {
	options := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: true, SendContentMd5: true}
	if conditional {
		options.SetMatchETagExcept("*")
	} else if _, err := b.client.StatObject(ctx, b.name, b.key(key), minio.StatObjectOptions{}); err == nil {
		return minio.ErrorResponse{StatusCode: http.StatusPreconditionFailed}
	} else if minio.ToErrorResponse(err).StatusCode != http.StatusNotFound {
		return err
	}
	_, err := b.client.PutObject(ctx, b.name, b.key(key), bytes.NewReader(content), int64(len(content)), options)
	return err
}

func (b *bucket) Read(ctx context.Context, key string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	object, err := b.client.GetObject(ctx, b.name, b.key(key), minio.GetObjectOptions{})
	if err != nil {
		return nil, b.explain(err, "read "+b.URL(key))
	}
	defer object.Close()
	content, err := io.ReadAll(object) // an error if the connection ends early: the answer has a length
	return content, b.explain(err, "read "+b.URL(key))
}

func (b *bucket) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	exists, err := b.client.BucketExists(ctx, b.name)
	if err == nil && !exists {
		err = minio.ErrorResponse{Code: "NoSuchBucket", Message: "the bucket does not exist"}
	}
	return b.explain(err, "open "+b.scheme+"://"+b.name)
}

// explain adds the operation, a status and advice to an error of the service.
func (b *bucket) explain(err error, operation string) error {
	if err == nil {
		return nil
	}
	status, try := fault.Failed, "check that "+b.client.EndpointURL().String()+" is reachable; the records stay in the spool"
	var response minio.ErrorResponse
	if errors.As(err, &response) {
		switch code := response.Code; {
		case response.StatusCode == http.StatusForbidden, code == "AccessDenied", code == "InvalidAccessKeyId", code == "SignatureDoesNotMatch", code == "Forbidden":
			status, try = fault.Permission, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to a key that may write to the bucket"
		case code == "NoSuchBucket":
			status, try = fault.Usage, "create the bucket "+b.name
		}
	}
	return &destinationError{fault.New(status, try, "%s: %w", operation, err)}
}
