"""What a running application's rows lack, and have too much, against ours: by key and cause, in DataFrames."""
