"""Groups of Kafka clients on a clock: brokers, their tree and members with faults that a seed decides."""
