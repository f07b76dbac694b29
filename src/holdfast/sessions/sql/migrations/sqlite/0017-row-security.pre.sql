-- serves: 0015
-- Row security is PostgreSQL's; here nobody but this program opens the file. The number is kept in step.
select 1;
