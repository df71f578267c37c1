module example.com/consumer

go 1.26.0

require layover v0.0.0

replace layover => ../../
