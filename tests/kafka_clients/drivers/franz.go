// franz-go (kgo): see digest.py for the commands.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func record(n int) ([]byte, []byte) {
	return []byte(fmt.Sprintf("k%d", n%1000)), []byte(fmt.Sprintf("%d-%s", n, strings.Repeat("x", n*37%200)))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func produce(bootstrap, topic string, count int, names []string, options ...kgo.Opt) any {
	failed := 0
	for at, name := range names {
		client, err := kgo.NewClient(append(options, kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.AllowAutoTopicCreation(),
			kgo.ProducerBatchCompression(codecs[name]), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
		check(err)
		for n := count * at / len(names); n < count*(at+1)/len(names); n++ {
			key, value := record(n)
			client.Produce(context.Background(), &kgo.Record{Topic: topic, Key: key, Value: value},
				func(_ *kgo.Record, err error) {
					if err != nil {
						failed++
					}
				})
		}
		check(client.Flush(context.Background()))
		client.Close()
	}
	return map[string]any{"errors": failed, "first": []string{}}
}

func consume(bootstrap, topic string, count int) any {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.ConsumePartitions(
		map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	check(err)
	sum, seen := sha256.New(), 0
	for seen < count {
		fetches := client.PollFetches(context.Background())
		for _, each := range fetches.Errors() {
			check(each.Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if seen < count {
				fmt.Fprintf(sum, "%d\t%d\t%s\t%s\n", r.Offset, r.Timestamp.UnixMilli(), r.Key, r.Value)
				seen++
			}
		})
	}
	client.Close()
	return map[string]any{"count": seen, "sha256": fmt.Sprintf("%x", sum.Sum(nil))}
}

// first returns the offset of the first record that is read from a place on.
func first(bootstrap, topic string, place kgo.Offset) int64 {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.ConsumePartitions(
		map[string]map[int32]kgo.Offset{topic: {0: place}}))
	check(err)
	defer client.Close()
	for {
		fetches := client.PollFetches(context.Background())
		for _, each := range fetches.Errors() {
			check(each.Err)
		}
		for _, each := range fetches.Records() {
			return each.Offset
		}
	}
}

// member reads as a member of a group until it is killed: a line for each record.
func member(bootstrap, topic, group string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.ConsumeTopics(topic),
		kgo.ConsumerGroup(group), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(2*time.Second),
		kgo.HeartbeatInterval(300*time.Millisecond), kgo.AutoCommitInterval(200*time.Millisecond))
	check(err)
	for {
		client.PollFetches(context.Background()).EachRecord(func(r *kgo.Record) {
			fmt.Println(strings.SplitN(string(r.Value), "-", 2)[0])
		})
	}
}

func main() {
	if os.Args[1] == "member" {
		member(os.Args[2], os.Args[3], os.Args[4])
	}
	count, err := strconv.Atoi(os.Args[4])
	check(err)
	var answer any
	switch os.Args[1] {
	case "produce", "idempotent": // idempotent by default
		answer = produce(os.Args[2], os.Args[3], count, strings.Split(os.Args[5], ","))
	case "consume":
		answer = consume(os.Args[2], os.Args[3], count)
	case "look":
		at, err := strconv.ParseInt(os.Args[5], 10, 64)
		check(err)
		answer = map[string]any{
			"sought": first(os.Args[2], os.Args[3], kgo.NewOffset().At(int64(count))),
			"found":  first(os.Args[2], os.Args[3], kgo.NewOffset().AfterMilli(at)),
		}
	}
	check(json.NewEncoder(os.Stdout).Encode(answer))
}
