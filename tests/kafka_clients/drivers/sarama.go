// sarama: see digest.py for the commands.
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

	"github.com/IBM/sarama"
)

var codecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

func record(n int) (string, string) {
	return fmt.Sprintf("k%d", n%1000), fmt.Sprintf("%d-%s", n, strings.Repeat("x", n*37%200))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func produce(bootstrap, topic string, count int, names []string, idempotent bool) any {
	failed := 0
	for at, name := range names {
		config := sarama.NewConfig()
		config.Producer.Compression = codecs[name]
		config.Producer.Partitioner = sarama.NewManualPartitioner
		config.Producer.RequiredAcks = sarama.WaitForAll
		config.Producer.Return.Successes = true
		config.Producer.Idempotent = idempotent
		config.Net.MaxOpenRequests = 1
		producer, err := sarama.NewAsyncProducer(strings.Split(bootstrap, ","), config)
		check(err)
		first, end := count*at/len(names), count*(at+1)/len(names)
		go func() {
			for n := first; n < end; n++ {
				key, value := record(n)
				producer.Input() <- &sarama.ProducerMessage{
					Topic: topic, Key: sarama.StringEncoder(key), Value: sarama.StringEncoder(value)}
			}
		}()
		for answered := first; answered < end; answered++ {
			select {
			case <-producer.Successes():
			case <-producer.Errors():
				failed++
			}
		}
		check(producer.Close())
	}
	return map[string]any{"errors": failed, "first": []string{}}
}

func read(bootstrap, topic string, offset int64) (sarama.PartitionConsumer, sarama.Client) {
	client, err := sarama.NewClient(strings.Split(bootstrap, ","), sarama.NewConfig())
	check(err)
	consumer, err := sarama.NewConsumerFromClient(client)
	check(err)
	partition, err := consumer.ConsumePartition(topic, 0, offset)
	check(err)
	return partition, client
}

func consume(bootstrap, topic string, count int) any {
	partition, _ := read(bootstrap, topic, sarama.OffsetOldest)
	sum := sha256.New()
	for seen := 0; seen < count; seen++ {
		r := <-partition.Messages()
		fmt.Fprintf(sum, "%d\t%d\t%s\t%s\n", r.Offset, r.Timestamp.UnixMilli(), r.Key, r.Value)
	}
	return map[string]any{"count": count, "sha256": fmt.Sprintf("%x", sum.Sum(nil))}
}

func look(bootstrap, topic string, offset, time int64) any {
	partition, client := read(bootstrap, topic, offset)
	found, err := client.GetOffset(topic, 0, time)
	check(err)
	return map[string]any{"sought": (<-partition.Messages()).Offset, "found": found}
}

// reader prints a line for each record of its claims.
type reader struct{}

func (reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case r, open := <-claim.Messages():
			if !open {
				return nil
			}
			fmt.Println(strings.SplitN(string(r.Value), "-", 2)[0])
			session.MarkMessage(r, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

// member reads as a member of a group until it is killed.
func member(bootstrap, topic, group string) {
	config := sarama.NewConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Interval = 200 * time.Millisecond
	config.Consumer.Group.Session.Timeout = 2 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	consumer, err := sarama.NewConsumerGroup(strings.Split(bootstrap, ","), group, config)
	check(err)
	for {
		check(consumer.Consume(context.Background(), []string{topic}, reader{}))
	}
}

func main() {
	if os.Args[1] == "member" {
		member(os.Args[2], os.Args[3], os.Args[4])
	}
	number, err := strconv.ParseInt(os.Args[4], 10, 64)
	check(err)
	var answer any
	switch os.Args[1] {
	case "produce", "idempotent":
		answer = produce(os.Args[2], os.Args[3], int(number), strings.Split(os.Args[5], ","), os.Args[1] == "idempotent")
	case "consume":
		answer = consume(os.Args[2], os.Args[3], int(number))
	case "look":
		at, err := strconv.ParseInt(os.Args[5], 10, 64)
		check(err)
		answer = look(os.Args[2], os.Args[3], number, at)
	}
	check(json.NewEncoder(os.Stdout).Encode(answer))
}
